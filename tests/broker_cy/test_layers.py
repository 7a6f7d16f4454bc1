"""The layers also apply to Cython files: import-linter only reads .py files, so its contracts are checked here."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(LAYERED,) = (contract["layers"] for contract in CONTRACTS if contract["name"] == "Layers run one way")
# The place of each room, 0 for the highest; rooms of one place do not know each other.
PLACES = {f"broker_cy.{room}": place for place, layer in enumerate(LAYERED) for room in layer.split(" | ")}
FORBIDDEN = [
    (contract["source_modules"], contract["forbidden_modules"])
    for contract in CONTRACTS
    if contract["type"] == "forbidden"
]
PROTECTED = [
    (contract["protected_modules"], contract["allowed_importers"])
    for contract in CONTRACTS
    if contract["type"] == "protected"
]
SOURCES = sorted(
    path
    for room in ("broker_cy", "broker_streams")
    for kind in ("*.pyx", "*.pxd", "*.pxi")
    for path in (ROOT / room).rglob(kind)
)
# One name, or names in parentheses over any number of lines.
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([\w., \t]+)", re.MULTILINE)


def imports(text: str, package: str) -> Iterator[str]:
    """Return the full names of what a Cython source of `package` imports; `from a import b` gives a.b."""
    for match in _FROM.finditer(text):
        base = match[1]
        if base.startswith("."):
            up = len(base) - len(base.lstrip("."))
            parents = package.split(".")[: len(package.split(".")) - (up - 1)]
            base = ".".join([*parents, *filter(None, [base.lstrip(".")])])
        for name in match[2].partition("#")[0].strip("()").split(","):
            if name.strip():
                yield f"{base}.{name.split()[0]}"
    for match in _IMPORT.finditer(text):
        yield from (name.split()[0] for name in match[1].split(",") if name.strip())


def within(name: str, modules: Iterable[str]) -> str | None:
    return next((module for module in modules if name == module or name.startswith(module + ".")), None)


def violation(source: str, imported: str) -> str | None:
    """Return why the module `source` may not import `imported`; None if it may."""
    low, high = within(source, PLACES), within(imported, PLACES)
    if low is not None and high is not None and low != high and PLACES[high] <= PLACES[low]:
        return f"{source} imports {imported}: {high} is not a layer below {low}"
    for sources, modules in FORBIDDEN:
        if within(source, sources) and within(imported, modules):
            return f"{source} imports {imported}: forbidden for {within(source, sources)}"
    for modules, importers in PROTECTED:
        if within(imported, modules) and not within(source, importers):
            return f"{source} imports {imported}: allowed for {importers} only"
    return None


def test_cython_files_keep_the_layers() -> None:
    """If this fails, the data path gets an upward dependency that no other check sees."""
    assert len(SOURCES) > 20
    found, ours = [], 0
    for path in SOURCES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for imported in imports(path.read_text(), module.rpartition(".")[0]):
            ours += imported.startswith("broker_cy.")
            if reason := violation(module, imported):
                found.append(reason)
    assert found == []
    # Otherwise the expressions above no longer find existing imports.
    assert ours > 100


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("from broker_cy.core.cursor cimport Cursor", True),
        ("from libc.stdint cimport int64_t", True),
        ("from broker_cy.broker.registry cimport Registry", False),
        ("    from broker_cy.server import lifecycle", False),
        ("from broker_cy cimport server", False),
        ("from broker_cy.admin import caller", False),
        ("cimport broker_cy.replica.partition", False),
        ("import os, broker_cy.broker.registry as registry", False),
        (
            "from broker_cy.core.cursor import (\n    Cursor,\n)\nfrom broker_cy.replica import (\n    partition,\n)",
            False,
        ),
        ("from ..replica.partition cimport Partition", False),
        ("from .segment cimport Segment", True),
    ],
)
def test_a_wrong_import_is_found(line: str, allowed: bool) -> None:
    """If this fails, the check passes because it finds nothing."""
    reasons = [violation("broker_cy.storage.log", name) for name in imports(line + "\n", "broker_cy.storage")]
    assert reasons
    assert all(reason is None for reason in reasons) == allowed


def test_the_control_plane_does_not_reach_the_data_path() -> None:
    """If this fails, a state machine may use files, or a sibling, without a finding."""
    assert violation("broker_cy.coordinator.classic.group", "broker_cy.storage.log.Log")
    assert violation("broker_cy.coordinator.classic.group", "broker_cy.quorum.state")
    assert violation("broker_cy.coordinator.classic.group", "broker_cy.wire.messages") is None


# ---- circles ----

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "broker_cy").rglob("*.py")
}


def imported_by(text: str) -> Iterator[str]:
    """Return the full names of what a Python source imports anywhere in it, under TYPE_CHECKING and in functions
    too.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or not (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_modules.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in open_modules:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = open_modules.index(module)
            circle = open_modules[at:]
            del open_modules[at:]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def module_of(name: str) -> str | None:
    """Return the module that an imported name is, or is in."""
    return name if name in MODULES else name.rpartition(".")[0] if name.rpartition(".")[0] in MODULES else None


def test_no_circle_of_imports() -> None:
    """If this fails, two modules depend on each other, and TYPE_CHECKING or a late import hides it."""
    graph = {
        module: {found for name in imported_by(path.read_text()) if (found := module_of(name)) not in (None, module)}
        for module, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > 500
    assert circles(graph) == []


def test_a_circle_is_found() -> None:
    """If this fails, the check above passes because it finds nothing."""
    late = "if TYPE_CHECKING:\n    from a.b import C\ndef f():\n    import x.y\n"
    assert sorted(imported_by(late)) == ["a.b.C", "x.y"]
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"a"}}
    assert circles(graph) == [["a", "b", "c"]]
