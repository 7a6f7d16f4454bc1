"""Data directories: which are formatted as new, and which are refused."""

from pathlib import Path

import pytest

from broker_cy.storage.data_directory import DataDirectoryError

from .managing import open_manager


@pytest.mark.parametrize("name", ["t-0", "__cluster_metadata-0"])
def test_logs_of_an_unknown_cluster_are_refused(tmp_path: Path, name: str) -> None:
    """If this fails, logs whose meta.properties is lost become part of a new cluster without a warning."""
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / name).mkdir(parents=True)
    expected = rf"old holds logs \({name}\) but no meta.properties: put that file back"
    with pytest.raises(DataDirectoryError, match=expected) as caught:
        open_manager(tmp_path / "new", tmp_path / "old")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*/meta.properties"))
    # With the logs moved elsewhere, both are new, and nothing is locked any more.
    (tmp_path / "old" / name).rename(tmp_path / name)
    open_manager(tmp_path / "new", tmp_path / "old").stop()
    assert len(list(tmp_path.glob("*/meta.properties"))) == 2


def test_foreign_files_do_not_make_a_directory_an_old_one(tmp_path: Path) -> None:
    """If this fails, a mounted, empty file system cannot be used as a data directory."""
    for name in ("lost+found", "t-0.0123456789abcdef0123456789abcdef-delete", "-1"):
        (tmp_path / name).mkdir()
    for name in ("readme.txt", "a-7", ".lock"):
        (tmp_path / name).write_text("")
    open_manager(tmp_path).stop()
    assert (tmp_path / "meta.properties").exists()
