"""Data directories that are formatted as new, and those that are rejected."""

from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.storage.data_directory import DataDirectoryError
from broker_cy.storage.open_directories import open_directories, open_metadata_directory

from .managing import open_manager

CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"


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


def test_a_directory_of_an_older_kafka_gets_an_id(tmp_path: Path) -> None:
    """If this fails, a broker on a directory of Kafka 3.6 cannot register once metadata.version is upgraded."""
    path = tmp_path / "meta.properties"
    path.write_text(f"#\nnode.id=1\nversion=1\ncluster.id={CLUSTER_ID}\n")
    for made in (UUID(int=1000), UUID(int=2000)):
        (directory,) = open_directories([str(tmp_path)], 1, lambda: "", lambda made=made: made)  # type: ignore[misc]
        directory.close()
        assert (directory.cluster_id, directory.directory_id) == (CLUSTER_ID, UUID(int=1000))


def test_a_metadata_directory_has_an_id_of_its_own(tmp_path: Path) -> None:
    """If this fails, a voter with metadata.log.dir is another one than the one that was formatted: no quorum begins."""
    ids = iter(UUID(int=number) for number in range(1000, 1010))
    (data,) = open_directories([str(tmp_path / "data")], 1, lambda: CLUSTER_ID, lambda: next(ids))
    assert open_metadata_directory(data.path, [data], lambda: next(ids)) is data
    with pytest.raises(DataDirectoryError, match="is not formatted, and this node is one of several: format it with"):
        open_metadata_directory(str(tmp_path / "metadata"), [data], lambda: next(ids), may_format=False)
    made = open_metadata_directory(str(tmp_path / "metadata"), [data], lambda: next(ids))
    made.close()
    again = open_metadata_directory(str(tmp_path / "metadata"), [data], lambda: next(ids), may_format=False)
    assert again.directory_id == made.directory_id != data.directory_id
    assert (again.cluster_id, again.node_id) == (data.cluster_id, data.node_id)
    with pytest.raises(DataDirectoryError, match="is in use by another broker"):
        open_metadata_directory(again.path, [data], lambda: next(ids))
    again.close()
    data.node_id = 2
    with pytest.raises(
        DataDirectoryError, match=r"belongs to node.id 1 of cluster .*, .*/data to node.id 2 of cluster"
    ):
        open_metadata_directory(again.path, [data], lambda: next(ids))
    data.close()
