"""Each room of the package imports only from the rooms above it, and has one public face.

`ROOMS` is the architecture. Put a new room below everything it uses and above everything that uses
it; files inside a room need no list, only imports without a cycle.
"""

import ast
import graphlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "jaxfs"
ROOT = Path(__file__).parents[1] / PACKAGE

#: Folders and single files, from the bedrock to the command line.
ROOMS = (
    "_checks",
    "_types",
    "_numerics",
    "cache",
    "interop",
    "linalg",
    "kernels",
    "graphs",
    "transport",
    "geometry",
    "resample",
    "evaluate",
    "surrogates",
    "methods.classical",
    "methods.manifest",
    "methods.gaussian",
    "methods.ssfs",
    "methods.dirichlet",
    "inference",
    "streaming",
    "distributed",
    "estimators",
    "plot",
    "cli.tables",
    "cli",
)

#: Optional packages, and the files that may import them at module level.
OPTIONAL = {"jinja2", "matplotlib", "pandas", "polars", "rich", "torch", "typer", "xgboost"}
MAY_NEED_OPTIONAL = {"cli._options", "cli._commands"}


def module_name(path: Path, root: Path) -> str:
    """`geometry/spd.py` → `geometry.spd`, `geometry/__init__.py` → `geometry`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(name: str) -> str | None:
    """The room of a module, or of a name in one; `None` outside all rooms."""
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in ROOMS), None)


def imported(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Every `(line, absolute name)` that a module imports, inside functions too.

    `from a.b import c` gives `a.b.c`; the callers decide whether `c` is a file or a name in a file.
    """
    here = [PACKAGE, *module.split(".")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)


def own_imports(source: str, module: str) -> list[tuple[int, str]]:
    """What a module imports from this package, without the leading `jaxfs.`"""
    found = imported(ast.parse(source), module)
    return [(line, name.partition(".")[2]) for line, name in found if name.split(".")[0] == PACKAGE]


def room_violations(source: str, module: str) -> list[str]:
    """Imports of one file that leave its room in the wrong direction."""
    room = room_of(module)
    if room is None:
        file = f"{PACKAGE}/{module.replace('.', '/')}.py"
        return [f"{file} is in no room: add its room to ROOMS of tests/test_layers.py"]
    found = []
    for line, target in own_imports(source, module):
        other = room_of(target)
        if other is None:
            found.append(f"{module}:{line} imports {PACKAGE}.{target}: name the room that has it")
        elif ROOMS.index(other) > ROOMS.index(room):
            found.append(f"{module}:{line} imports {target}, but {other} is not above {room}")
    return found


def cycle(sources: dict[str, str]) -> list[str] | None:
    """The first cycle of imports between files; a face counts as a file."""
    graph = {}
    for module, source in sources.items():
        targets = [target for _, target in own_imports(source, module)]
        files = {t if t in sources else t.rpartition(".")[0] for t in targets}
        # `from jaxfs.surrogates import _shared` counts as an import of the file `_shared` only.
        graph[module] = {name for name in files if name in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


#: Code by which the package imports a sub-package when it is first used, because few programs need
#: it. Type checkers read the imports above `else`. A face may have no other code.
LAZY = '''
def __getattr__(name):
    """Import a sub-package of `__all__` when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"{__name__}.{name}")

def __dir__():
    return sorted({*globals(), *__all__})
'''


def without_laziness(tree: ast.Module) -> ast.Module:
    """The face of the package, with lazy imports replaced by plain imports if it uses `LAZY`."""
    lazy = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and ast.unparse(node.test) == "TYPE_CHECKING"
        and ast.unparse(node.orelse) == ast.unparse(ast.parse(LAZY).body)
    ]
    if len(lazy) != 1:
        return tree
    flag = "from typing import TYPE_CHECKING"
    body = [node for node in tree.body if node is not lazy[0] and ast.unparse(node) != flag]
    return ast.Module(lazy[0].body + body, [])


def init_violations(source: str, module: str) -> list[str]:
    """Violations by a face. It may only import names of its folder, and list them in `__all__`."""
    folder = ".".join([PACKAGE, *([module] if module else [])])
    tree = ast.parse(source) if module else without_laziness(ast.parse(source))
    found, names, listed = [], set(), set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the docstring
        elif isinstance(node, ast.Assign) and (literal := _literal_dunder(node)) is not None:
            listed |= set(literal) if isinstance(literal, list) else set()
        else:
            found.append(f"{module}:{node.lineno} is logic: {ast.unparse(node).splitlines()[0]}")
    found += [f"{module}: {name} must be both imported and in __all__" for name in names ^ listed]
    found += [
        f"{module}:{line} re-exports {target} from outside {folder}"
        for line, target in imported(tree, f"{module}.__init__".lstrip("."))
        if not target.startswith(folder + ".")
    ]
    return found


def _literal_dunder(node: ast.Assign) -> object:
    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    if len(names) != 1 or names[0] not in {"__all__", "__version__"}:
        return None
    try:
        return ast.literal_eval(node.value)
    except ValueError:
        return None


def optional_violations(source: str, module: str) -> list[str]:
    """Optional packages that a file imports at module level."""
    if module in MAY_NEED_OPTIONAL:
        return []
    tree = _WithoutDeferredCode().visit(ast.parse(source))
    return [
        f"{module}:{line} imports {target} at module level: import it in the function that needs it"
        for line, target in imported(tree, module)
        if target.split(".")[0] in OPTIONAL
    ]


class _WithoutDeferredCode(ast.NodeTransformer):
    """Removes code that does not run on import: function bodies and `if TYPE_CHECKING:` blocks."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            node.body = [ast.Pass()]
        return self.generic_visit(node)


#: Rooms whose face is a program with a `main`, not a list of names.
PROGRAMS = {"cli"}


def violations(root: Path) -> list[str]:
    """All violations by the imports of a package folder."""
    files = {path: module_name(path, root) for path in sorted(root.rglob("*.py"))}
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    found = []
    for path, module in files.items():
        face = path.name == "__init__.py" and module not in PROGRAMS
        found += (init_violations if face else room_violations)(sources[path], module)
        found += optional_violations(sources[path], module)
    inside = {m: sources[p] for p, m in files.items() if p.name != "__init__.py"}
    found += [f"a cycle of imports: {' → '.join(names)}"] if (names := cycle(inside)) else []
    return found


def test_package_keeps_its_layers():
    found = violations(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_three_private_files_lie_flat():
    flat = {path.name for path in ROOT.glob("_*.py")}
    assert flat == {"__init__.py", "_checks.py", "_types.py", "_numerics.py"}


def test_import_needs_no_extra():
    """`import jaxfs` loads the runtime dependencies only; four sub-packages load when used."""
    lazy = ["distributed", "estimators", "plot", "streaming"]
    late = OPTIONAL | {"sklearn", "narwhals", *(f"{PACKAGE}.{name}" for name in lazy)}
    code = f"""if True:
        import sys, {PACKAGE}
        print(*sorted({late!r} & set(sys.modules)))
        assert {{*{lazy!r}}} <= {{*dir({PACKAGE})}} and not hasattr({PACKAGE}, "no_such_name")
        print(*(getattr({PACKAGE}, name).__name__ for name in {lazy!r}))
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"{PACKAGE}.{name}" for name in lazy]


# Tests of the checker itself: each source breaks one rule.

VIOLATIONS = {
    "from the package": ("kernels._rbf", "from jaxfs import methods"),
    "a room below": ("kernels._rbf", "from jaxfs.methods.manifest import manifest_score"),
    "a room below, relative": ("kernels._rbf", "from ..methods.manifest import manifest_score"),
    "a room below, as a module": ("kernels._rbf", "import jaxfs.graphs as g"),
    "a private file below": ("kernels._rbf", "from jaxfs.graphs._neighbors import laplacian"),
    "a sister below": ("methods.manifest._score", "from jaxfs.methods.ssfs import ssfs"),
    "inside a function": ("linalg._lapack", "def f():\n    from jaxfs import kernels"),
    "under TYPE_CHECKING": ("linalg._lapack", "if TYPE_CHECKING:\n    from jaxfs import kernels"),
    "the public face": ("methods.manifest._score", "from jaxfs import Median"),
    "the public face, whole": ("methods.manifest._score", "import jaxfs"),
    "an unknown file": ("linalg._lapack", "from jaxfs._secret import x"),
    "no place in the house": ("_secret", ""),
}


@pytest.mark.parametrize(("module", "source"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_checker_catches(module, source):
    assert len(room_violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels._rbf", "import jax\nimport numpy as np\nfrom jax import lax"),
        ("kernels._rbf", "from jaxfs import _checks, linalg\nfrom jaxfs._types import Median"),
        ("kernels._rbf", "from jaxfs.linalg import sqrtm\nfrom jaxfs.kernels import _order"),
        ("geometry.spsd", "from . import spd\nfrom .grassmann import exp\nfrom .. import linalg"),
        ("methods.manifest._score", "from jaxfs import geometry\nfrom jaxfs.geometry import spd"),
        ("cli._commands", "import jaxfsx\nfrom jaxfs import plot"),
    ],
)
def test_checker_allows(module, source):
    assert room_violations(source, module) == []


def test_cycles_inside_a_room_are_found():
    first, second = "from jaxfs.linalg._b import f", "from jaxfs.linalg import _a"
    assert cycle({"linalg._a": first, "linalg._b": ""}) is None
    assert cycle({"linalg._a": first, "linalg._b": second}) is not None


def test_unknown_file_says_what_to_do(tmp_path):
    (tmp_path / "novel").mkdir()
    (tmp_path / "novel" / "_file.py").write_text("")
    (message,) = violations(tmp_path)
    assert "jaxfs/novel/_file.py" in message
    assert "add its room to ROOMS of tests/test_layers.py" in message


def test_a_face_may_only_reexport():
    good = """
        '''The public face.'''
        from jaxfs import linalg
        from jaxfs._types import Median, Percentile
        __version__ = "0.1.0"
        __all__ = ["Median", "Percentile", "linalg"]
    """
    assert init_violations(textwrap.dedent(good), "") == []
    for bad in (
        "from jaxfs._types import Median",
        "__all__ = ['Median']",
        "from jaxfs._types import *",
        "import os",
        "from os import path\n__all__ = ['path']",
        "x = 1",
        "__version__ = version('jaxfs')",
        "def f(): ...",
        "if True: pass",
    ):
        assert init_violations(bad, ""), bad
    outside = "from jaxfs.methods import manifest\n__all__ = ['manifest']"
    assert init_violations(outside, "geometry")
    inside = "from jaxfs.geometry import spd\n__all__ = ['spd']"
    assert not init_violations(inside, "geometry")
    assert not init_violations("from . import spd\n__all__ = ['spd']", "geometry")


def test_the_package_may_import_lazily_in_one_way():
    flag, plain = "from typing import TYPE_CHECKING", "from jaxfs import plot"
    names = "__all__ = ['plot']"

    def face(imports: str, code: str, condition: str = "TYPE_CHECKING") -> str:
        body = textwrap.indent(imports, "    "), textwrap.indent(code, "    ")
        return f"{flag}\nif {condition}:\n{body[0]}\nelse:\n{body[1]}\n{names}"

    assert init_violations(face(plain, LAZY), "") == []
    for bad in (
        face(plain, LAZY.replace("not in", "in")),
        face(plain, LAZY + "x = 1"),
        face("from os import path as plot", LAZY),
        face(plain + "\nx = 1", LAZY),
        face(plain, LAZY, "True"),
        face("from jaxfs import evaluate", LAZY),
        f"{flag}\n{plain}\n{names}",
        LAZY,
    ):
        assert init_violations(bad, ""), bad
    inside = face("from jaxfs.geometry import plot", LAZY)
    assert init_violations(inside, "geometry")


def test_optional_packages_are_imported_late():
    assert optional_violations("import matplotlib.pyplot as plt", "kernels._rbf")
    assert optional_violations("try:\n    from rich import table\nexcept: pass", "kernels._rbf")
    assert optional_violations("class A:\n    import pandas", "kernels._rbf")
    assert not optional_violations("def f():\n    import matplotlib", "kernels._rbf")
    assert not optional_violations("if TYPE_CHECKING:\n    import pandas", "kernels._rbf")
    assert not optional_violations("import typer, rich", "cli._options")
