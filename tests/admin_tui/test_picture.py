"""Pictures of the screen are saved where the user keeps pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from admin_tui.picture import pictures_directory, save
from tests.admin_tui.conftest import Terminal, drive
from tests.support.broker import BrokerProcess


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate home directory for the test."""
    for name in ("XDG_PICTURES_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_directory_of_pictures(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a picture is saved where users do not look for it."""
    assert pictures_directory() == home
    (home / ".config").mkdir()
    (home / ".config" / "user-dirs.dirs").write_text('XDG_MUSIC_DIR="$HOME/M"\nXDG_PICTURES_DIR="$HOME/Bilder"\n')
    # It does not exist.
    assert pictures_directory() == home
    (home / "Bilder").mkdir()
    assert pictures_directory() == home / "Bilder"
    (home / "other").mkdir()
    monkeypatch.setenv("XDG_PICTURES_DIR", str(home / "other"))
    assert pictures_directory() == home / "other"
    # Relative to a working directory that may be a repository.
    monkeypatch.setenv("XDG_PICTURES_DIR", "other")
    assert pictures_directory() == home


def test_no_picture_replaces_another(tmp_path: Path) -> None:
    """If this fails, two pictures taken in the same second become one."""
    paths = [save(str(n), tmp_path, "20260131-120000") for n in range(3)]
    assert [path.name for path in paths] == [f"broker-tui-20260131-120000{end}.svg" for end in ("", "-2", "-3")]
    assert [path.read_text() for path in paths] == ["0", "1", "2"]


def test_a_key_saves_the_screen(broker_cy: BrokerProcess, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a picture is saved to the working directory, and from there gets into a repository."""
    work = home / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    async def job(terminal: Terminal) -> None:
        await terminal.shows("Health")
        await terminal.press("ctrl+s")
        await terminal.shows("saved as")
        (path,) = home.glob("broker-tui-*.svg")
        assert "Health" in path.read_text()
        assert list(work.iterdir()) == []

    drive(broker_cy.bootstrap, job, size=(160, 50))
