"""The package is a stack: a file imports only from files above it.

`ORDER` is the map of the house. Put a new file where it belongs in it: below everything it uses,
above everything that uses it.
"""

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "jaxfs"
ROOT = Path(__file__).parents[1] / PACKAGE

ORDER = (
    "_fork",
    "_checks",
    "_types",
    "_numerics",
    "_lapack",
    "_stability",
    "_medoids",
    "_order",
    "_distances",
    "_self_tuning",
    "_shards",
    "_manhattan",
    "_spectral",
    "_functions",
    "_bordered",
    "_subspace",
    "linalg",
    "kernels",
    "graphs",
    "_transport",
    "transport",
    "_gates",
    "geometry._common",
    "geometry.spd",
    "geometry.grassmann",
    "geometry.spsd",
    "resample",
    "surrogates._common",
    "surrogates._lars",
    "surrogates._ridge",
    "surrogates.linear",
    "surrogates.logistic",
    "surrogates._trees",
    "surrogates.boosting",
    "surrogates.models",
    "methods.manifest",
    "methods._lowrank",
    "methods.manifest_lowrank",
    "methods._gaussian_moments",
    "methods._gaussian",
    "methods._gaussian_criteria",
    "methods._gaussian_search",
    "methods.gaussian",
    "methods._eigenspaces",
    "methods.canonical",
    "methods._laplacian",
    "methods._ssfs",
    "methods._ssfs_options",
    "methods.ssfs",
    "methods._dirichlet_graph",
    "methods._dirichlet",
    "methods._coverage",
    "methods._dirichlet_gates",
    "methods._dirichlet_network",
    "methods._dirichlet_options",
    "methods.dirichlet",
    "methods._bins",
    "methods._moments",
    "methods.filters",
    "methods._knn_information",
    "methods.information",
    "methods._combine",
    "methods._relief",
    "methods.relief",
    "methods._redundancy",
    "methods.redundancy",
    "methods.spectral",
    "_stumps",
    "adaboost",
    "evaluate",
    "_blocks",
    "_passes",
    "streaming",
    "_mapped",
    "_buckets",
    "_sharded",
    "distributed",
    "_memory",
    "estimators._arrays",
    "estimators._cost",
    "estimators._progress",
    "estimators._problem",
    "estimators._base",
    "estimators.manifest",
    "estimators.gaussian",
    "estimators.relief",
    "estimators.redundancy",
    "estimators.filters",
    "estimators.spectral",
    "estimators.ssfs",
    "estimators.dirichlet",
    "estimators.ensemble",
    "estimators._catalogue",
    "_columns",
    "_allowance",
    "_matlab",
    "_decimals",
    "_delimited",
    "_containers",
    "_naming",
    "_tables",
    "_figures",
    "_plot_scores",
    "_plot_results",
    "plot",
    "_html",
    "_report",
    "_plan",
    "_choose",
    "_compare",
    "_pictures",
    "_files",
    "_demo",
    "_show",
    "_arguments",
    "_commands",
    "cli",
)

OPTIONAL = {"matplotlib", "typer", "rich", "pandas", "polars", "xgboost"}
MAY_NEED_OPTIONAL = {"plot", "_arguments", "_commands", "cli"}


def module_name(path: Path, root: Path) -> str:
    """`geometry/spd.py` → `geometry.spd`, `geometry/__init__.py` → `geometry.__init__`."""
    return ".".join(path.relative_to(root).with_suffix("").parts)


def imported(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Every `(line, absolute name)` that a module imports, inside functions too.

    `from a.b import c` gives `a.b.c`: whether `c` is a file or a name in one is settled later.
    """
    here = [PACKAGE, *module.split(".")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)


def position(target: str) -> int | None:
    """Where in `ORDER` an imported name lives; `None` for the package itself or an unknown file.

    A folder, or a name from its `__init__`, stands where the last file of the folder stands.
    """
    parts = target.split(".")[1:]
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in ORDER:
            return ORDER.index(name)
        inside = [i for i, entry in enumerate(ORDER) if entry.startswith(name + ".")]
        if inside:
            return max(inside)
    return None


def layer_violations(source: str, module: str) -> list[str]:
    """What is wrong with the place or the imports of one file; empty when all is well."""
    if module not in ORDER:
        file = f"{PACKAGE}/{module.replace('.', '/')}.py"
        return [f"{file} has no place in ORDER of tests/test_layers.py: add it below its imports"]
    own = ORDER.index(module)
    found = []
    for line, target in imported(ast.parse(source), module):
        if target.split(".")[0] != PACKAGE:
            continue
        where = position(target)
        if where is None:
            found.append(f"{module}:{line} imports {target}: name the file that defines it")
        elif where >= own:
            found.append(f"{module}:{line} imports {target}, which is not above it in ORDER")
    return found


def init_violations(source: str, module: str) -> list[str]:
    """An `__init__` re-exports names as themselves, from its own folder, and does nothing else."""
    folder = ".".join([PACKAGE, *module.split(".")[:-1]])
    tree = ast.parse(source)
    found = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            renamed = [alias.name for alias in node.names if alias.asname != alias.name]
            found += [f"{module}:{node.lineno} write `{n} as {n}` or drop it" for n in renamed]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the docstring
        elif isinstance(node, ast.Assign) and _is_literal_dunder(node):
            continue
        else:
            found.append(f"{module}:{node.lineno} is logic: {ast.unparse(node).splitlines()[0]}")
    found += [
        f"{module}:{line} re-exports {target} from outside {folder}"
        for line, target in imported(tree, module)
        if not target.startswith(folder + ".")
    ]
    return found


def _is_literal_dunder(node: ast.Assign) -> bool:
    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return len(names) == 1 and names[0] in {"__all__", "__version__"}


def optional_violations(source: str, module: str) -> list[str]:
    """Packages of the extras that a file imports as it is itself imported."""
    if module in MAY_NEED_OPTIONAL:
        return []
    tree = _WithoutDeferredCode().visit(ast.parse(source))
    return [
        f"{module}:{line} imports {target} at module level: import it in the function that needs it"
        for line, target in imported(tree, module)
        if target.split(".")[0] in OPTIONAL
    ]


class _WithoutDeferredCode(ast.NodeTransformer):
    """Drops what does not run on import: function bodies and `if TYPE_CHECKING:` blocks."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            node.body = [ast.Pass()]
        return self.generic_visit(node)


def violations(root: Path) -> list[str]:
    """All that is wrong with the imports of a package folder."""
    found = []
    for path in sorted(root.rglob("*.py")):
        module, source = module_name(path, root), path.read_text(encoding="utf-8")
        check = init_violations if path.name == "__init__.py" else layer_violations
        found += check(source, module) + optional_violations(source, module)
    return found


def test_package_keeps_its_layers():
    found = violations(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_order_names_no_file_twice():
    assert len(set(ORDER)) == len(ORDER)


def test_import_needs_no_extra():
    """`import jaxfs` needs the runtime dependencies only, and leaves the estimators to those who
    ask for them.
    """
    late = OPTIONAL | {"sklearn", "narwhals", "jaxfs.estimators"}
    code = f"import sys, {PACKAGE}; print(*sorted({late!r} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# The checker itself, on sources that break one rule each.

VIOLATIONS = {
    "from the package": ("kernels", "from jaxfs import methods"),
    "a file below": ("kernels", "from jaxfs.methods.manifest import manifest_score"),
    "a file below, relative": ("kernels", "from .methods import manifest"),
    "a file below, as a module": ("kernels", "import jaxfs.graphs as g"),
    "the file itself": ("kernels", "from jaxfs.kernels import rbf"),
    "later in its folder": ("geometry.spd", "from . import spsd"),
    "two levels up": ("geometry.spd", "from ..methods.manifest import x"),
    "its own folder whole": ("geometry.spd", "from jaxfs import geometry"),
    "inside a function": ("linalg", "def f():\n    from jaxfs import kernels"),
    "under TYPE_CHECKING": ("linalg", "if TYPE_CHECKING:\n    from jaxfs import kernels"),
    "the public face": ("methods.manifest", "from jaxfs import Median"),
    "the public face, whole": ("methods.manifest", "import jaxfs"),
    "an unknown file": ("linalg", "from jaxfs._secret import x"),
    "no place in the house": ("_secret", ""),
}


@pytest.mark.parametrize(("module", "source"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_checker_catches(module, source):
    assert len(layer_violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels", "import jax\nimport numpy as np\nfrom jax import lax"),
        ("kernels", "from jaxfs import _checks, linalg\nfrom jaxfs._types import Median"),
        ("kernels", "from . import linalg\nfrom .linalg import sqrtm"),
        ("geometry.spsd", "from . import spd\nfrom .grassmann import exp\nfrom .. import linalg"),
        ("methods.manifest", "from jaxfs import geometry\nfrom jaxfs.geometry import spd"),
        ("cli", "import jaxfsx\nfrom jaxfs import plot"),
    ],
)
def test_checker_allows(module, source):
    assert layer_violations(source, module) == []


def test_unknown_file_says_what_to_do(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "novel.py").write_text("")
    (message,) = violations(tmp_path)
    assert "jaxfs/methods/novel.py" in message
    assert "ORDER of tests/test_layers.py: add it" in message


def test_init_may_only_reexport():
    good = """
        '''The public face.'''
        from jaxfs import linalg as linalg
        from jaxfs._types import Median as Median, Percentile as Percentile
        __version__ = "0.1.0"
    """
    assert init_violations(textwrap.dedent(good), "__init__") == []
    for bad in (
        "from jaxfs._types import Median",
        "from jaxfs._types import Median as M",
        "from jaxfs._types import *",
        "import os",
        "from os import path as path",
        "x = 1",
        "__version__ = version('jaxfs')",
        "def f(): ...",
        "if True: pass",
    ):
        assert init_violations(bad, "__init__"), bad
    assert init_violations("from jaxfs.methods import manifest as manifest", "geometry.__init__")
    assert not init_violations("from jaxfs.geometry import spd as spd", "geometry.__init__")
    assert not init_violations("from . import spd as spd", "geometry.__init__")


def test_optional_packages_are_imported_late():
    assert optional_violations("import matplotlib.pyplot as plt", "kernels")
    assert optional_violations("try:\n    from rich import table\nexcept: pass", "kernels")
    assert optional_violations("class A:\n    import pandas", "kernels")
    assert not optional_violations("def f():\n    import matplotlib", "kernels")
    assert not optional_violations("if TYPE_CHECKING:\n    import pandas", "kernels")
    assert not optional_violations("import matplotlib", "plot")
    assert not optional_violations("import typer, rich", "cli")
