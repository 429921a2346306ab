"""Blocks of a table give the answers of the whole table; and files that lie are found out."""

import jax
import numpy as np
import polars as pl
import pytest

import jaxfs
from jaxfs import streaming
from jaxfs.methods.gaussian import _search
from tests.helpers import assert_close, rng

N, D = 90, 12


def table(dtype="float64"):
    """Offsets far beyond the spread, a constant feature, an uneven third class."""
    generator = rng(7)
    y = np.repeat([0, 1, 2], [40, 30, 20])[generator.permutation(N)]
    x = generator.normal(size=(N, D))
    x[:, 2] += y
    x[:, 5] *= 1 + y
    x[:, 3] = x[:, 2] + 0.1 * x[:, 3]
    x += 50.0
    x[:, 7] = 3.0
    return x.astype(dtype), y


def in_blocks(*arrays, size=16, rows=None):
    """The last block is shorter than the others."""
    n = len(arrays[0])
    cuts = range(0, n, size)
    return streaming.from_blocks(
        lambda: (tuple(a[i : i + size] for a in arrays) for i in cuts), rows=rows
    )


@pytest.mark.parametrize("memory", [2**20, 0], ids=["covariances", "passes"])
@pytest.mark.parametrize(
    ("select", "options"),
    [
        ("gc_select", {}),
        ("gc_select", {"objective": "entropy", "ridge": 1e-2, "initial": [4, 1]}),
        ("gc_select", {"fallback": "random", "key": jax.random.key(1)}),
        ("gkl_select", {}),
        ("gkl_select", {"objective": "mi", "shrinkage": 0.5}),
    ],
    ids=["GC.MI", "GC.E", "random", "GKL.E", "GKL.MI"],
)
def test_selectors(select, options, memory):
    x, y = table()
    weights = rng(8).uniform(size=N)
    weights[:20] = 0
    options = {"num_classes": 3, **options}
    got = getattr(streaming, select)(in_blocks(x, y, weights), 6, memory=memory, **options)
    expected = getattr(jaxfs, select)(x, y, 6, weights=weights, **options)
    np.testing.assert_array_equal(got.indices, expected.indices)
    assert_close(got.objective, expected.objective, 1e-9)
    assert got.saturated_at == expected.saturated_at


def test_float32_keeps_its_digits():
    x, y = table("float32")
    got = streaming.gc_select(in_blocks(x, y), 6, num_classes=3)
    assert got.objective.dtype == np.float32
    exact = jaxfs.gc_select(x.astype("float64"), y, 6, num_classes=3)
    np.testing.assert_array_equal(got.indices, exact.indices)
    np.testing.assert_allclose(got.objective, exact.objective, rtol=1e-4)


SCORES = {
    "fisher_score": 3,
    "anova_score": 3,
    "chi2_score": 3,
    "t_score": 2,
    "variance_score": None,
    "pearson_score": None,
    "f_regression_score": None,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCORES)
def test_filters(name, dtype):
    x, y = table(dtype)
    weights = rng(9).uniform(0.5, 2, size=N)
    classes = SCORES[name]
    target = np.minimum(y, 1) if name == "t_score" else y
    source = in_blocks(x, target, weights, size=25, rows=10)
    got = getattr(streaming, name)(source, *([] if classes is None else [classes]))
    assert got.dtype == dtype
    exact = x.astype("float64")
    given = {} if classes is None else {"num_classes": classes}
    of = (exact,) if name == "variance_score" else (exact, target)
    expected = getattr(jaxfs, name)(*of, weights=weights, **given)
    assert got[7] == 0
    np.testing.assert_allclose(got, expected, rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e20, 1e-23])
@pytest.mark.parametrize("name", ["anova_score", "pearson_score"])
def test_squares_that_float32_does_not_hold(name, scale):
    x, y = table("float32")
    source = in_blocks(((x - 50) * scale).astype("float32"), y)
    given = [3] if name == "anova_score" else []
    exact = getattr(jaxfs, name)(
        (x - 50).astype("float64"), y, **({"num_classes": 3} if given else {})
    )
    got = np.asarray(getattr(streaming, name)(source, *given))
    others = np.arange(D) != 7
    np.testing.assert_allclose(got[others], exact[others], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("memory", [2**20, 0], ids=["covariances", "passes"])
def test_nan_reaches_its_own_feature(memory):
    x, y = table()
    x[60, 4] = np.nan
    got = streaming.anova_score(in_blocks(x, y), 3)
    assert np.flatnonzero(np.isnan(got)).tolist() == [4]
    chosen = streaming.gc_select(in_blocks(x, y), 11, num_classes=3, memory=memory)
    assert np.all(chosen.indices == -1)


def test_small_weights_are_samples_all_the_same():
    x, y = table()
    weights = np.full(N, 1 / N)
    options = {"num_classes": 3, "ridge": 0.0}
    got = streaming.gc_select(in_blocks(x, y, weights), 3, **options)
    expected = jaxfs.gc_select(x, y, 3, weights=weights, **options)
    np.testing.assert_array_equal(got.indices, expected.indices)


def test_a_second_call_compiles_nothing(monkeypatch):
    x, y = table()
    streaming.gc_select(in_blocks(x, y), 2, num_classes=3)
    traced = []
    monkeypatch.setattr(_search.Search, "run", lambda *a: traced.append(a))
    streaming.gc_select(in_blocks(x, y), 2, num_classes=3)
    assert not traced


# ---- Files --------------------------------------------------------------------------------------


def test_npy_is_mapped(tmp_path):
    x, y = table("float32")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    for labels in (y, tmp_path / "y.npy"):
        source = streaming.from_npy(tmp_path / "x.npy", labels, rows=32)
        assert (source.num_features, source.rows, source.dtype) == (D, 32, np.float32)
        got = streaming.gc_select(source, 3, num_classes=3)
        np.testing.assert_array_equal(got.indices, jaxfs.gc_select(x, y, 3, num_classes=3).indices)
        assert source.num_samples == N


@pytest.mark.parametrize("text", [False, True])
def test_parquet(tmp_path, text):
    x, y = table()
    labels = np.array(["ant", "bee", "cow"])[y] if text else y
    columns = {f"gene {j}": x[:, j] for j in range(D)} | {"kind": labels}
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet", row_group_size=20)
    source = streaming.from_parquet(tmp_path / "t.parquet", "kind", rows=32)
    assert_close(streaming.anova_score(source, 3), jaxfs.anova_score(x, y, num_classes=3), 1e-9)
    source = streaming.from_parquet(tmp_path / "t.parquet", "kind", columns=["gene 5", "gene 2"])
    few = jaxfs.anova_score(x[:, [5, 2]], y, num_classes=3)
    assert_close(streaming.anova_score(source, 3), few, 1e-9)


def test_a_file_that_ends_early(tmp_path):
    x, y = table()
    np.save(tmp_path / "x.npy", x)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"x\.npy cannot be read as \.npy: .*file size"):
        streaming.from_npy(tmp_path / "x.npy", y)
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ValueError, match=r"y must be an array without a mask"):
        streaming.from_npy(tmp_path / "x.npy", np.ma.masked_equal(y, 0))
    with pytest.raises(ValueError, match=r"weights must be of shape \(90,\), one weight a sample"):
        streaming.from_npy(tmp_path / "x.npy", y, weights=np.ones(N + 1))
    (tmp_path / "x.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"x\.npy cannot be read as \.npy"):
        streaming.from_npy(tmp_path / "x.npy", y)
    (tmp_path / "x.npy").write_bytes(b"no numbers")
    with pytest.raises(ValueError, match=r"x\.npy cannot be read as \.npy"):
        streaming.from_npy(tmp_path / "x.npy", y)
    pl.DataFrame({"a": [1.0], "y": [0]}).write_parquet(tmp_path / "t.parquet")
    half = (tmp_path / "t.parquet").read_bytes()[:-20]
    (tmp_path / "t.parquet").write_bytes(half)
    with pytest.raises(ValueError, match=r"t\.parquet cannot be read as Parquet"):
        streaming.from_parquet(tmp_path / "t.parquet", "y")


def test_parquet_mistakes_are_named(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1.0, None], "b": ["x", "y"], "y": [0, 1]}).write_parquet(path)
    with pytest.raises(ValueError, match=r"target must be a column of .*, got 'z'"):
        streaming.from_parquet(path, "z")
    with pytest.raises(ValueError, match=r"column 'b' of .* must be numeric, got String"):
        streaming.from_parquet(path, "y")
    with pytest.raises(ValueError, match=r"column 'a' of .* must be without missing values"):
        streaming.from_parquet(path, "y", columns=["a"])


def test_mistakes_are_named():
    x, y = table()
    with pytest.raises(ValueError, match=r"y must be in 0 … 1 .* got the label 2"):
        streaming.anova_score(in_blocks(x, y), 2)
    with pytest.raises(ValueError, match=r"each of 4 classes has samples, got none of 3"):
        streaming.anova_score(in_blocks(x, y), 4)
    with pytest.raises(ValueError, match=r"weights must be finite and at least 0"):
        streaming.anova_score(in_blocks(x, y, -np.ones(N)), 3)
    with pytest.raises(ValueError, match=r"of samples with positive weight, got none"):
        streaming.anova_score(in_blocks(x, y, np.zeros(N)), 3)
    with pytest.raises(ValueError, match=r"of at least one sample, got none"):
        streaming.from_blocks(lambda: iter(()))
    with pytest.raises(ValueError, match=r"x must be nonnegative for χ², got -57\.0 in feature 7"):
        streaming.chi2_score(in_blocks(x - 60, y), 3)
    with pytest.raises(
        ValueError, match=r"num_features must be at most 11, the features that vary"
    ):
        streaming.gc_select(in_blocks(x, y), 12, num_classes=3)
    with pytest.raises(ValueError, match=r"y must be numbers, got dtype <U"):
        streaming.pearson_score(in_blocks(x, y.astype(str)))
    with pytest.raises(ValueError, match=r"one label for each of 90 rows"):
        streaming.from_blocks(lambda: [(x, y[:4])])
    with pytest.raises(
        ValueError, match=r"a block must be an array with 12 features of dtype float64, got 11"
    ):
        streaming.anova_score(streaming.from_blocks(lambda: [(x, y), (x[:, 1:], y)]), 3)


def test_a_source_that_changes():
    x, y = table()
    lengths = iter([N, N, N - 5])

    def read():
        n = next(lengths)
        yield x[:n], y[:n]

    source = streaming.from_blocks(read)
    with pytest.raises(ValueError, match=r"the 90 samples of the previous pass, got 85"):
        streaming.anova_score(source, 3)
