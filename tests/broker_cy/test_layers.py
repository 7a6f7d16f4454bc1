"""The layers also apply to Cython files: import-linter only reads .py files, so its contracts are checked here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(LAYERS,) = (contract["layers"] for contract in CONTRACTS if contract["name"] == "Layers run one way")
FORBIDDEN = [
    (contract["source_modules"], contract["forbidden_modules"])
    for contract in CONTRACTS
    if contract["type"] == "forbidden"
]
SOURCES = sorted(path for kind in ("*.pyx", "*.pxd", "*.pxi") for path in (ROOT / "broker_cy").rglob(kind))
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


def within(name: str, modules: list[str]) -> str | None:
    return next((module for module in modules if name == module or name.startswith(module + ".")), None)


def violation(source: str, imported: str) -> str | None:
    """Return why the module `source` may not import `imported`; None if it may."""
    low, high = within(source, LAYERS), within(imported, LAYERS)
    if low is not None and high is not None and LAYERS.index(high) < LAYERS.index(low):
        return f"{source} imports {imported}: {high} is a layer above {low}"
    for sources, modules in FORBIDDEN:
        if within(source, sources) and within(imported, modules):
            return f"{source} imports {imported}: forbidden for {within(source, sources)}"
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
        ("from broker_cy.server.registry cimport Registry", False),
        ("    from broker_cy.server import registry", False),
        ("from broker_cy cimport server", False),
        ("cimport broker_cy.replica.partition", False),
        ("import os, broker_cy.server.registry as registry", False),
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
    """If this fails, the second contract is not checked."""
    assert violation("broker_cy.coordinator.group", "broker_cy.storage.log.Log")
    assert violation("broker_cy.coordinator.group", "broker_cy.wire.messages") is None
