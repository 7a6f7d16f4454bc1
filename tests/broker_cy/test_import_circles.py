"""No two Python modules need each other, not even for types only. Four small groups of Cython modules do, each within
one folder: extension classes that hold each other.
"""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("admin_tui", "bench", "broker_cy", "broker_registry", "dashboard", "demo", "loadgen", "spark_analytics")

# An import statement, without its indentation.
IMPORT = re.compile(r"^[ \t]*((?:from [\w.]+ )?import (?:\([^)]*\)|[\w., ]+))", re.MULTILINE)

CYTHON_CIRCLES = {
    ("replica.flush_group", "replica.group_commit"),
    ("storage.log", "storage.log_flush", "storage.lookups"),
    ("storage.producer_snapshot", "storage.producer_state"),
    ("storage.recovery", "storage.segment"),
}


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
    # To parse the other lines, too, would take twenty times as long.
    statements = "\n".join(IMPORT.findall(source))
    for node in ast.parse(statements).body:
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
    """If this fails, the test above passes for all imports."""
    known = {"a": Path(), "b": Path()}
    graph = {"a": imported(source, known), "b": imported("from a import y", known)}
    assert sorted(circle(graph)) in (["a", "a", "b"], ["a", "b", "b"])


def cython_modules() -> dict[str, str]:
    """The text of each Cython module, .pyx and .pxd, by its name."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.p[yx][xd]")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name] = found.get(name, "") + path.read_text()
    return found


def cython_imported(source: str, known: dict[str, str]) -> set[str]:
    """The modules in `known` that a module imports or cimports."""
    found = set(re.findall(r"^\s*c?import ([\w.]+)", source, re.MULTILINE))
    names = r"\(([^)]*)\)|([^(\n]*)$"
    for module, several, one in re.findall(rf"^\s*from ([\w.]+) c?import (?:{names})", source, re.MULTILINE):
        found |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", several or one))}
    return found & known.keys()


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The largest groups of names that reach each other."""
    reach = {name: set(targets) for name, targets in graph.items()}
    for middle in graph:
        for targets in reach.values():
            if middle in targets:
                targets |= reach[middle]
    groups = {tuple(sorted(other for other in targets if name in reach[other])) for name, targets in reach.items()}
    return {group for group in groups if len(group) > 1}


def test_cython_modules_that_need_each_other_are_known() -> None:
    """If this fails, another extension class cannot be built, read or moved without one that needs it."""
    known = cython_modules()
    assert len(known) > 80
    graph = {name: cython_imported(source, known) - {name} for name, source in known.items()}
    assert sum(map(len, graph.values())) > 200
    assert circles(graph) == {tuple(f"broker_cy.{name}" for name in circle) for circle in CYTHON_CIRCLES}


@pytest.mark.parametrize(
    "source", ["cimport b", "from b cimport x, y", "    from b import x", "from p cimport (\n    q,\n)"]
)
def test_a_circle_of_cython_modules_is_found(source: str) -> None:
    """If this fails, the test above passes for all dependencies."""
    known = dict.fromkeys(("a", "b", "c", "p.q"), "")
    graph = {"a": cython_imported(source, known), "b": {"c"}, "c": {"a", "b"}, "p.q": {"a"}}
    assert circles(graph) in ({("a", "b", "c")}, {("a", "p.q"), ("b", "c")})
