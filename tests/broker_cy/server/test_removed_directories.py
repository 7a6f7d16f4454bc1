"""Data directories that are removed, or whose disk is unmounted, while a broker runs."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run, until


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_removed_directory_is_offline(tmp_path: Path, name: str) -> None:
    """If this fails, a broker acknowledges records and metadata that go to deleted files, and that no start finds."""
    gone = tmp_path / name

    async def work() -> None:
        settings = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b", "metadata.log.dir": f"{tmp_path}/a"}
        async with GroupBroker(tmp_path, settings) as broker:
            shutil.rmtree(gone)
            manager = broker.server.broker.log_manager
            (directory,) = (each for each in manager.data_directories if each.path == str(gone))
            manager.failures.suspect(f"{gone}/t-0", FileNotFoundError(errno.ENOENT, "No such file or directory"))
            await until(lambda: directory.failure is not None)
            assert directory.failure == (
                f"the data directory {gone} failed: [Errno 2] No such file or directory: '{gone}/meta.properties'"
            )
            halted = broker.server.broker.controller.halted
            if name == "a":
                await until(halted.done)
                assert halted.result().endswith("It has the metadata log: restart the broker when the disk works again")
            else:
                assert not halted.done()
                assert not gone.exists()

    run(work)
