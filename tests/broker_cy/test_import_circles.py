"""No two Python modules need each other, not even for their types only. Cython modules are checked by the compiler: the
data path has four circles of extension classes that hold each other, each within one folder.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("admin_tui", "bench", "broker_cy", "dashboard", "demo", "loadgen", "spark_analytics")


def modules() -> dict[str, Path]:
    """The Python files of all packages by the name of their module."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }


def imported(source: str, known: dict[str, Path]) -> set[str]:
    """The modules in `known` that a file imports anywhere, also in `if TYPE_CHECKING` and within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                full = f"{node.module}.{each.name}"
                found.add(full if full in known else node.module)
    return found & known.keys()


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The names of one circle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        return names
    return []


def test_no_module_needs_one_that_needs_it() -> None:
    """If this fails, neither of two modules can be understood, tested or moved without the other."""
    known = modules()
    assert len(known) > 500
    graph = {name: imported(path.read_text(), known) - {name} for name, path in known.items()}
    assert sum(map(len, graph.values())) > 2000
    found = circle(graph)
    assert not found, " imports ".join(reversed(found))


@pytest.mark.parametrize(
    "source", ["import b", "from b import x", "def f():\n    from b import x", "if TYPE_CHECKING:\n    from b import x"]
)
def test_a_circle_is_found(source: str) -> None:
    """If this fails, the test above passes whatever the modules import."""
    known = {"a": Path(), "b": Path()}
    graph = {"a": imported(source, known), "b": imported("from a import y", known)}
    assert sorted(circle(graph)) in (["a", "a", "b"], ["a", "b", "b"])
