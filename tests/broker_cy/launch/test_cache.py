"""Directories that are filled once per machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.launch import cache
from broker_cy.launch.processes import ProcessError


def test_what_is_made_once_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each program downloads its packages again, or uses half of an interrupted download."""
    monkeypatch.setenv("BROKER_CY_CACHE", str(tmp_path))
    made: list[Path] = []

    def make(directory: Path) -> None:
        made.append(directory)
        (directory / "part").write_text("1")
        if len(made) == 1:
            raise ProcessError("no network")

    with pytest.raises(ProcessError):
        cache.made_once("thing", make)
    assert not (tmp_path / "thing").exists()
    for _ in range(2):
        assert (cache.made_once("thing", make) / "part").read_text() == "1"
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["thing"]
