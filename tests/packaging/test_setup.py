"""setup.py: which extensions are compiled."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.packaging.distributions import ROOT


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """setup.py in a tree with one extension of the broker and one of bench; it translates and compiles nothing."""
    for name in ("broker_cy/one.pyx", "bench/two.pyx"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BROKER_CY_OPENSSL", raising=False)
    spec = importlib.util.spec_from_file_location("setup_of_the_tree", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)

    def translated(found: list[Any], **options: Any) -> list[Any]:
        return found

    monkeypatch.setattr("Cython.Build.cythonize", translated)
    return made


def names(setup: ModuleType) -> set[str]:
    return {each.name for each in setup.extensions()}


def test_all_rooms_are_compiled(setup: ModuleType) -> None:
    """If this fails, `make build` leaves out an extension."""
    assert names(setup) == {"broker_cy.one", "bench.two"}


def test_only_wanted_rooms_and_what_was_compiled_before(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `make run` compiles what it does not need, or leaves an extension that fits other headers."""
    monkeypatch.setattr(setup, "WANTED_ROOMS", ["broker_cy"])
    assert names(setup) == {"broker_cy.one"}
    Path("bench/two.cpython-311-x86_64-linux-gnu.so").touch()
    assert "bench.two" in names(setup)


def test_another_openssl_is_refused(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a typing error in BROKER_CY_OPENSSL gives a broker with another library, or without TLS."""
    monkeypatch.setenv("BROKER_CY_OPENSSL", "vendord")
    with pytest.raises(SystemExit, match="BROKER_CY_OPENSSL=vendord: expected system, vendored or none"):
        setup.openssl()
