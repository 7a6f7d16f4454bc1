"""A real broker whose metadata was damaged or removed while it was down: it refuses to start, reports the damage in one
line, and changes no file. Only a torn write at the end, which was never acknowledged, is cut off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.storage.checkpoints import RECOVERY_POINTS, read_entries
from tests.support.acked import batch, read_partition
from tests.support.broker import BrokerProcess, Target, target_is_kafka
from tests.support.raw_wire import Connection, produce
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own broker's files and log")

LOG = "__cluster_metadata-0/00000000000000000000.log"


class Down:
    """A broker that was stopped, with a record in each of the topics `t0` to `t3`."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.root = broker.data_dir
        self.log = broker.data_dir / LOG

    def committed(self) -> int:
        """Return the end of the committed metadata by the checkpoint; -1 if it has none."""
        return read_entries(str(self.root / RECOVERY_POINTS)).offsets.get(("__cluster_metadata", 0), -1)

    def run_and_kill(self) -> None:
        """Start the broker, let it write its checkpoint of the committed metadata, and kill it."""
        before = self.committed()
        self.broker.start()
        until(lambda: self.committed() > before, "what is committed is noted")
        self.broker.kill()

    def files(self) -> dict[str, bytes]:
        """Return all files except the lock."""
        found = (path for path in self.root.rglob("*") if path.name != ".lock")
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}

    def refused(self, *texts: str) -> None:
        """Check that the broker does not start, that its last line contains all of `texts`, and no file changed."""
        before = self.files()
        child = self.broker.launch()
        assert child.wait(60) == 1, child.stderr()
        assert child.stdout() == ""
        assert "traceback" not in child.stderr().lower()
        line = child.stderr().splitlines()[-1]
        assert line.startswith("broker-cy: ")
        assert all(text in line for text in texts), line
        assert self.files() == before

    def check(self) -> None:
        """Check that the broker starts and serves all topics."""
        self.broker.start()
        for number in range(4):
            assert read_partition((self.broker.host, self.broker.port), f"t{number}", 0) == [(0, b"kept")]
        assert not list(self.root.glob("*-stray"))


@pytest.fixture
def down(make_broker: Callable[..., Target]) -> Down:
    broker = make_broker()
    assert isinstance(broker, BrokerProcess)
    with Connection((broker.host, broker.port)) as connection:
        for number in range(4):
            create_topic(broker.bootstrap, f"t{number}")
            answers = produce(connection, {f"t{number}": {0: batch(b"kept", timestamp=1)}})
            assert {answer.error for answer in answers.values()} == {0}
    assert broker.stop() == 0
    return Down(broker)


def flip(path: Path, position: int) -> None:
    """Invert every bit of a byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.full)])
def test_committed_metadata_are_damaged(down: Down, end: str) -> None:
    """If this fails, one wrong byte in the metadata removes all topics without an error."""
    if end == "kill":
        # The records of the last start and stop are after the middle, and below the checkpoint.
        down.run_and_kill()
    size = down.log.stat().st_size
    # In the middle, and in the offset of the first batch, which no checksum covers.
    for position in (size // 2, 7):
        flip(down.log, position)
        down.refused(str(down.log), "is damaged at byte ", "restore the data directory from a copy")
        flip(down.log, position)
    down.check()


def test_committed_metadata_are_cut_short(down: Down) -> None:
    """If this fails, a partially restored metadata log counts as a complete one."""
    content = down.log.read_bytes()
    length = 12 + int.from_bytes(content[8:12], "big")
    down.log.write_bytes(content[:length])
    down.refused(str(down.log.parent), "ends at offset ", f"committed up to offset {down.committed()}")
    down.log.write_bytes(content)
    down.check()


@pytest.mark.full
def test_noise_after_a_clean_stop_of_which_nothing_is_noted(down: Down) -> None:
    """If this fails, damage in a directory that Kafka stopped cleanly counts as a torn write."""
    (down.root / RECOVERY_POINTS).unlink()
    size = down.log.stat().st_size
    with open(down.log, "ab") as file:
        file.write(b"\xa5" * 50)
    down.refused(str(down.log), f"is damaged at byte {size} ")
    os.truncate(down.log, size)
    down.check()


def test_a_torn_write_is_cut_off(down: Down) -> None:
    """If this fails, a crash in the middle of a change of the metadata prevents the broker from starting."""
    down.run_and_kill()
    with open(down.log, "ab") as file:
        file.write(batch(bytes(500))[:300])
    down.check()
    (line,) = [line for line in down.broker.stderr().splitlines() if str(down.log) in line]
    assert "cut_bytes=300 " in line


@pytest.mark.full
def test_the_metadata_log_is_gone(down: Down) -> None:
    """If this fails, a broker without its metadata log starts an empty cluster, and sets every topic aside."""
    # It makes no difference if the checkpoint is also missing.
    (down.root / RECOVERY_POINTS).unlink()
    directory = down.log.parent
    copy = Path(shutil.copytree(directory, down.root.parent / "copy"))
    expected = (str(directory), "is missing or empty", "holds logs of topics (t0-0)", "restore the data directory")
    down.log.write_bytes(b"")
    down.refused(*expected)
    shutil.rmtree(directory)
    down.refused(*expected)
    shutil.copytree(copy, directory)
    down.check()


@pytest.mark.full
def test_meta_properties_are_gone(down: Down) -> None:
    """If this fails, logs get a new cluster id, and clients take them for those of another cluster."""
    path = down.root / "meta.properties"
    content = path.read_bytes()
    path.unlink()
    down.refused(str(down.root), "but no meta.properties", "put that file back")
    path.write_bytes(content)
    down.check()
