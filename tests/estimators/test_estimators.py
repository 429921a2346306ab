"""What estimators add to the core: data of all kinds in, names and arrays of their kind out."""

import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxfs
from jaxfs import _checks, estimators
from jaxfs.estimators import (
    FCBF,
    MRMR,
    SSFS,
    CombinedSelector,
    FilterSelector,
    GaussianCompromise,
    ManiFeSt,
    ReliefF,
    StabilitySelector,
    _base,
    wrappers,
)
from jaxfs.streaming import _memory
from tests.helpers import assert_close, rng

NAMES = ["ash", "beta", "colour", "dust", "ether", "flux"]
N, D = 40, 6


def data(dtype=np.float64):
    """Two classes with names, told apart by "colour" most and "ether" less."""
    x = rng(0).normal(size=(N, D))
    y = np.array(["no", "yes"])[np.arange(N) % 2]
    x[y == "yes", 2] += 3
    x[y == "yes", 4] += 1.5
    return x.astype(dtype), y


X, Y = data()
CODES = (Y == "yes").astype(int)


# ---- Answers ------------------------------------------------------------------------------------


def test_scores_are_those_of_the_core():
    scores = ManiFeSt(percentile=30.0, factor=2.0, combine=None).fit(X, Y).scores_
    rule = jaxfs.Percentile(30.0, 2.0)
    expected = jaxfs.manifest_score(X[CODES == 0], X[CODES == 1], bandwidth=rule)
    assert_close(scores, expected, 1e-9)
    scores = ReliefF(n_neighbors=5).fit(X, Y).scores_
    assert_close(scores, jaxfs.relieff_score(X, CODES, num_classes=2, num_neighbors=5), 1e-9)


def test_selectors_keep_the_order_of_the_core():
    fitted = GaussianCompromise(n_features_to_select=3).fit(X, Y)
    expected = jaxfs.gc_select(X, CODES, 3, num_classes=2)
    assert np.argsort(fitted.ranking_)[:3].tolist() == expected.indices.tolist()
    assert_close(fitted.objective_, expected.objective, 1e-9)
    assert sorted(fitted.ranking_.tolist()) == [1, 2, 3, 4, 4, 4]
    assert fitted.scores_[expected.indices].tolist() == pytest.approx([1, 2 / 3, 1 / 3])
    assert fitted.classes_.tolist() == ["no", "yes"]


def test_scores_rank_and_support_agree():
    fitted = FilterSelector(n_features_to_select=2).fit(X, Y)
    assert fitted.ranking_[2] == 1
    assert fitted.ranking_[4] == 2
    assert fitted.get_support(indices=True).tolist() == [2, 4]
    assert fitted.support_.tolist() == fitted.get_support().tolist()
    assert (np.argsort(-fitted.scores_)[fitted.ranking_ - 1] == np.arange(D)).all()
    assert fitted.transform(X).tolist() == X[:, [2, 4]].tolist()


@pytest.mark.parametrize(
    ("asked", "got"), [(3, 3), (0.5, 3), (1.0, 6), (0.01, 1), (np.int64(2), 2), ("auto", 1)]
)
def test_number_of_features(asked, got):
    assert FilterSelector(n_features_to_select=asked).fit(X, Y).n_features_ == got


@pytest.mark.parametrize("asked", [0, 7, 0.0, 1.5, "all", True, None])
def test_wrong_number_of_features(asked):
    with pytest.raises(ValueError, match="n_features_to_select must be"):
        FilterSelector(n_features_to_select=asked).fit(X, Y)


def test_automatic_number():
    assert _base.upper_group(np.array([np.inf, 10.0, 1.0, 0.5, 0.0])) == 2
    assert _base.upper_group(np.array([1.0, 1.0, 1.0])) == 3
    assert _base.upper_group(np.array([2.0, 0.0])) == 1
    assert [_base.default_number(d) for d in (1, 2, 5, 100, 10**6)] == [1, 2, 3, 10, 50]
    assert MRMR().fit(X, Y).n_features_ == 3
    assert FCBF(n_features_to_select=6, threshold=0.2).fit(X, Y).n_features_ < 6


def test_combined_and_nested_parameters():
    members = [("anova", FilterSelector()), ("relieff", ReliefF(n_neighbors=5))]
    fitted = CombinedSelector(estimators=members, method="mean_rank").fit(X, Y)
    expected = jaxfs.combine_scores(*(e.scores_ for _, e in fitted.estimators_), method="mean_rank")
    assert_close(fitted.scores_, expected, 1e-12)
    assert fitted.set_params(relieff__n_neighbors=4).get_params()["relieff__n_neighbors"] == 4
    mixed = [("a", FilterSelector()), ("p", FilterSelector(criterion="pearson"))]
    with pytest.raises(ValueError, match="all for classes or all for numbers"):
        CombinedSelector(estimators=mixed).fit(X, Y)


def test_stability():
    inside = FilterSelector(n_features_to_select=1)
    fitted = StabilitySelector(inside, n_resamples=8, random_state=0).fit(X, Y)
    assert fitted.scores_.tolist() == [0, 0, 1, 0, 0, 0]
    assert fitted.support_.tolist() == (fitted.scores_ > 0.5).tolist()
    assert fitted.stability_ == pytest.approx(1)
    assert fitted.mean_ranks_[2] == 1
    assert fitted.ranking_[2] == 1
    with pytest.raises(ValueError, match=r"estimator of jaxfs\.estimators"):
        StabilitySelector(LogisticRegression()).fit(X, Y)


def test_stability_seeds_what_is_inside():
    members = [("manifest", ManiFeSt()), ("fixed", ManiFeSt(random_state=3))]
    inside = CombinedSelector(estimators=members)
    seeds = []
    for _ in range(2):
        seeded = wrappers.seeded(clone(inside), np.random.RandomState(0)).get_params()
        seeds.append(seeded["manifest__random_state"])
        assert seeded["fixed__random_state"] == 3
    assert seeds[0] == seeds[1] is not None


# ---- Frames -------------------------------------------------------------------------------------


def frame(library: str, values):
    module = pytest.importorskip(library)
    return module.DataFrame(dict(zip(NAMES, values.T, strict=True)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_go_round(library):
    table = frame(library, X)
    fitted = FilterSelector(n_features_to_select=2).fit(table, table["ash"].__class__(Y))
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.get_feature_names_out().tolist() == ["colour", "ether"]
    assert isinstance(fitted.transform(table), np.ndarray)
    out = fitted.set_output(transform=library).transform(table)
    assert type(out) is type(table)
    assert list(out.columns) == ["colour", "ether"]
    assert out["ether"].to_list() == X[:, 4].tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_bad_columns_are_named(library):
    broken = X.copy()
    broken[[3, 5], 1] = np.nan
    broken[7, 4] = np.inf
    selector = FilterSelector()
    message = r"NaN or infinity: 'beta' \(2 NaN\), 'ether' \(1 infinite\), of 40 rows"
    with pytest.raises(ValueError, match=message):
        selector.fit(frame(library, broken), Y)
    with pytest.raises(ValueError, match=message):
        selector.fit(frame(library, X), Y).transform(frame(library, broken))
    module = pytest.importorskip(library)
    words = module.DataFrame({"size": [1.0, 2.0], "sex": ["m", "f"]})
    with pytest.raises(ValueError, match="not numbers: 'sex'"):
        selector.fit(words, [0, 1])


def test_bad_columns_without_names():
    broken = np.full((N, 8), np.nan)
    with pytest.raises(ValueError, match=r"column 0 \(40 NaN\).* and 3 more, of 40"):
        FilterSelector().fit(broken, Y)
    large = X.copy()
    large[0, 0] = 1e300
    with pytest.raises(ValueError, match=r"column 0 \(1 infinite\).*in float32"):
        FilterSelector(dtype="float32").fit(large, Y)
    with pytest.raises(ValueError, match=r"Negative values in data: column 0.*counts"):
        FilterSelector(criterion="chi2").fit(X, Y)


def test_other_mistakes():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="dense"):
        FilterSelector().fit(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="one class: 'a'"):
        FilterSelector().fit(X, ["a"] * N)
    with pytest.raises(ValueError, match="2 samples of every class"):
        ReliefF().fit(X, ["once", *Y[1:]])
    with pytest.raises(ValueError, match="raise the ridge"):
        ManiFeSt(ridge=0.0).fit(X[:, [0, 0, 0, 1]], Y)
    with pytest.raises(ValueError, match="dtype must be"):
        FilterSelector(dtype="float16").fit(X, Y)


# ---- Arrays of other libraries ------------------------------------------------------------------


def arrays(library: str):
    if library == "jax":
        return jnp.asarray
    module = pytest.importorskip(library)
    return module.asarray


@pytest.mark.parametrize("library", ["jax", "array_api_strict", "torch"])
def test_arrays_stay_in_their_library(library):
    make = arrays(library)
    x, y = make(X), make(CODES)
    fitted = FilterSelector(n_features_to_select=2).fit(x, y)
    out = fitted.transform(x)
    for found, dtype in ((out, x.dtype), (fitted.scores_, x.dtype), (fitted.support_, None)):
        assert type(found) is type(x)
        assert found.device == x.device
        assert dtype is None or found.dtype == dtype
    assert np.asarray(out).tolist() == X[:, [2, 4]].tolist()
    assert type(fitted.ranking_) is type(x)
    assert isinstance(fitted.get_support(), np.ndarray)


@pytest.mark.parametrize("library", ["jax", "array_api_strict", "torch"])
def test_every_array_attribute_stays_in_its_library(library):
    make = arrays(library)
    x, y = make(X), make(CODES)
    for selector in (GaussianCompromise(), FilterSelector(n_features_to_select="fdr")):
        fitted = selector.fit(x, y, sample_weight=make(np.ones(N)))
        found = {n: v for n, v in vars(fitted).items() if hasattr(v, "shape") and n != "classes_"}
        assert {type(value) for value in found.values()} == {type(x)}
        assert len(found) >= 4
        back = fitted.inverse_transform(fitted.transform(x))
        assert type(back) is type(x)
        expected = np.where(fitted.get_support(), X, 0)
        assert np.asarray(back).tolist() == expected.tolist()
        assert fitted.__sklearn_tags__().array_api_support


def test_fit_and_transform_in_different_libraries():
    """scikit-learn's checks refuse this only with `array_api_dispatch`: see test_checks.py."""
    strict = pytest.importorskip("array_api_strict")
    fitted = FilterSelector(n_features_to_select=2).fit(strict.asarray(X), CODES)
    assert fitted.transform(X).tolist() == X[:, [2, 4]].tolist()
    assert isinstance(fitted.transform(jnp.asarray(X)), jax.Array)


def test_transform_checks_arrays_without_a_copy_to_the_host(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    fitted = FilterSelector(n_features_to_select=2).fit(strict.asarray(X), CODES)
    broken = X.copy()
    broken[1, 3] = np.nan
    with pytest.raises(ValueError, match=r"column 3 \(1 NaN\)"):
        fitted.transform(strict.asarray(broken))
    with pytest.raises(ValueError, match="6 features"):
        fitted.transform(strict.asarray(X[:, :3]))

    def refuse(x):
        assert x.shape == (D,), "the samples were copied"
        return np.asarray(x)

    monkeypatch.setattr(_base._arrays, "to_numpy", refuse)
    assert fitted.transform(strict.asarray(X)).shape == (N, 2)


def test_data_on_an_accelerator_are_read_there(monkeypatch):
    """There is no accelerator here: memory of the host stands for it."""
    torch = pytest.importorskip("torch")
    x, read = torch.tensor(X, requires_grad=True), []
    monkeypatch.setattr(_checks, "on_accelerator", lambda x: isinstance(x, torch.Tensor))
    take = _checks.from_accelerator
    monkeypatch.setattr(_checks, "from_accelerator", lambda *a: read.append(a[0]) or take(*a))
    for selector in (FilterSelector(), ReliefF()):
        expected = clone(selector).fit(X, CODES).scores_
        assert np.asarray(selector.fit(x, CODES).scores_).tolist() == expected.tolist()
        assert read.pop() is x
        assert not read


def test_arrays_spread_over_a_mesh():
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data", None))
    fitted = FilterSelector(n_features_to_select=2).fit(jax.device_put(X, rows), CODES)
    assert fitted.scores_.sharding.is_fully_replicated
    assert fitted.transform(jax.device_put(X, rows)).shape == (N, 2)


def test_float64_is_computed_in_float64_and_float32_in_float32():
    with jax.enable_x64(False):
        plain = {"factor": 1.0, "combine": None}
        wide = ManiFeSt(**plain).fit(X, Y).scores_
        narrow = ManiFeSt(**plain).fit(X.astype(np.float32), Y).scores_
        forced = ManiFeSt(dtype="float32", **plain).fit(X, Y).scores_
        assert jnp.zeros(1).dtype == jnp.float32  # the setting is the caller's
    expected = jaxfs.manifest_score(X[CODES == 0], X[CODES == 1])
    assert wide.dtype == np.float64
    assert_close(wide, expected, 1e-10)
    assert narrow.dtype == forced.dtype == np.float32
    assert_close(narrow, expected, 1e-3)
    assert narrow.tolist() == forced.tolist()


# ---- In scikit-learn ----------------------------------------------------------------------------


def test_pipeline_search_clone_and_pickle():
    steps = StandardScaler(), ManiFeSt(n_features_to_select=2), LogisticRegression()
    pipeline = make_pipeline(*steps)
    grid = {"manifest__percentile": [30.0, 60.0], "manifest__n_features_to_select": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert search.best_params_["manifest__percentile"] in (30.0, 60.0)
    best = search.best_estimator_[1]
    again = pickle.loads(pickle.dumps(best))
    assert again.scores_.tolist() == best.scores_.tolist()
    assert clone(best).get_params() == best.get_params()
    assert not hasattr(clone(best), "scores_")


def test_html_representation_links_to_the_guide(monkeypatch):
    pages = Path(__file__).parents[2] / "docs" / "pages"
    public = [v for v in vars(estimators).values() if isinstance(v, type)]
    selectors = [v for v in public if issubclass(v, _base.Selector)]
    assert all((pages / f"{v._guide}.md").is_file() for v in selectors)
    monkeypatch.delenv("JAXFS_DOCS_URL", raising=False)
    assert ManiFeSt()._get_doc_link() == ""
    monkeypatch.setenv("JAXFS_DOCS_URL", "https://docs.example/")
    page = "https://docs.example/methods/manifest.html"
    assert f'href="{page}"' in ManiFeSt()._repr_html_()


def test_joblib():
    joblib = pytest.importorskip("joblib")
    selector = FilterSelector(n_features_to_select=2)
    # In threads: the x64 setting of one must not reach another.
    fit = joblib.delayed(lambda dtype: clone(selector).fit(X.astype(dtype), Y).scores_)
    found = joblib.Parallel(n_jobs=2, backend="threading")(map(fit, ["f8", "f4"] * 3))
    assert [f.dtype for f in found] == [np.dtype("f8"), np.dtype("f4")] * 3


# ---- Costs --------------------------------------------------------------------------------------


def test_cost_grows_and_reads_well():
    small, large = (ManiFeSt(solver="exact").cost(100, d) for d in (100, 20_000))
    assert large.bytes > 20e9
    assert str(large) == "about 25.6 GB"
    assert ManiFeSt(dtype="float32").cost(100, 100).bytes == small.bytes / 2
    assert _memory.readable(1.5e6) == "1.5 MB"
    assert _base.free_memory() > 0


@pytest.mark.parametrize("name", ["GaussianCompromise", "GaussianKL"])
def test_the_memory_of_gaussian_models_is_what_the_compiler_plans(name):
    n, d, c, k = 200, 64, 40, 20
    model = getattr(estimators, name)(n_features_to_select=k, dtype="float32")
    select = jaxfs.gc_select if name == "GaussianCompromise" else jaxfs.gkl_select
    samples = jax.ShapeDtypeStruct((n,), "float32")
    arguments = jax.ShapeDtypeStruct((n, d), "float32"), samples.update(dtype="int32"), samples
    run = jax.jit(lambda x, y, w: select(x, y, k, num_classes=c, weights=w))
    plan = run.lower(*arguments).compile().memory_analysis()
    needed = plan.temp_size_in_bytes + plan.argument_size_in_bytes + plan.output_size_in_bytes
    assert 0.8 < model.cost(n, d, c).bytes / needed < 1.2


def test_cost_is_that_of_the_chosen_solver():
    for members in (ManiFeSt(), CombinedSelector(), StabilitySelector(ManiFeSt())):
        assert members.cost(80, 20_000).bytes < 2e9
    assert ManiFeSt(geometry="spsd").cost(80, 20_000).bytes > 20e9
    # Beyond the graphs that are held, SSFS holds some rows.
    held, iterated = (SSFS().cost(n, 20).bytes for n in (8192, 100_000))
    assert iterated < held


def test_memory_of_a_container(tmp_path):
    groups, root = tmp_path / "cgroup", tmp_path / "root"
    inner, old = root / "job" / "step", root / "memory"
    for folder, names in ((inner, _memory._VERSION_2), (inner.parent, _memory._VERSION_2)):
        folder.mkdir(parents=True, exist_ok=True)
        for name, number in zip(names, ("max" if folder == inner else 1000, 700), strict=True):
            (folder / name).write_text(f"{number}\n")
    (inner.parent / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    groups.write_text("0::/job/step\n")
    assert _memory.of_container(groups, root) == 450
    groups.write_text("5:cpu:/a\n4:memory:/of/the/host\n")
    assert _memory.of_container(groups, root) == float("inf")
    old.mkdir()
    for name, number in zip(_memory._VERSION_1, (900, 1000), strict=True):
        (old / name).write_text(str(number))
    assert _memory.of_container(groups, root) == 0
    assert _memory.of_container(tmp_path / "none", root) == float("inf")


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_base, "free_memory", lambda: 100.0)
    with pytest.raises(MemoryError, match=r'needs about .* kB, and 100 B are free.*"lowrank"'):
        ManiFeSt(solver="exact").fit(X, Y)
    with pytest.raises(MemoryError, match="Lower lowrank_rank"):
        ManiFeSt(solver="lowrank").fit(X, Y)
    with pytest.raises(MemoryError, match="float32"):
        FilterSelector().fit(X, Y)


def test_failed_fit_leaves_the_estimator_as_it_was():
    fitted = FilterSelector().fit(X, Y)
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(X[:, :3], ["a"] * N)
    assert vars(fitted) == before


def test_scores_that_all_tie_are_told_of():
    """The ranking is then that of the columns, which nobody should take for an answer."""
    x = np.ones((12, 3))
    with pytest.warns(UserWarning, match="FilterSelector gives all 3 features the same score"):
        FilterSelector().fit(x, np.arange(12) % 2)
