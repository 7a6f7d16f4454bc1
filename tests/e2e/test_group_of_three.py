"""Real input through a consumer group of three members; one of them is killed halfway."""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.launch.processes import Child
from tests.support import corpus
from tests.support.broker import Target
from tests.support.clients import CLIENTS, unpack
from tests.support.topics import create_topic
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 6
MEMBERS = 3


@pytest.fixture
def members(broker: Target, topic: str, tmp_path: Path) -> Iterator[list[Child]]:
    """Three processes of one group; each appends what it read to a file before it commits."""
    group = "three-" + uuid.uuid4().hex[:6]
    started = []
    for number in range(MEMBERS):
        argv: list[str | Path] = [
            sys.executable,
            "-m",
            "tests.support.group_member",
            broker.bootstrap,
            group,
            topic,
            tmp_path / f"{number}.out",
        ]
        started.append(Child(argv, tmp_path, f"member-{number}", cwd=ROOT))
    yield started
    for member in started:
        member.kill()


@pytest.mark.parametrize("producer", ["confluent-kafka", pytest.param("kcat", marks=pytest.mark.full)])
def test_nothing_is_lost_when_a_member_is_killed(
    broker: Target, topic: str, members: list[Child], tmp_path: Path, producer: str
) -> None:
    """If this fails, records of the killed member's partitions are never read, or the group stops."""
    pairs = corpus.head(20_000)
    # The members subscribed before the topic existed, and find it.
    create_topic(broker.bootstrap, topic, PARTITIONS)
    half = len(pairs) // 2
    CLIENTS[producer].produce(broker.bootstrap, topic, pairs[:half], "none")

    def read() -> list[corpus.Pair]:
        return [pair for number in range(MEMBERS) for pair in unpack_whole(tmp_path / f"{number}.out")]

    def each_reads() -> bool:
        return all((tmp_path / f"{number}.out").exists() for number in range(MEMBERS)) and len(read()) >= half // 4

    until(each_reads, "every member to read", 60)
    members[0].kill()
    CLIENTS[producer].produce(broker.bootstrap, topic, pairs[half:], "zstd")
    wanted = Counter(pairs)
    until(lambda: not wanted - Counter(read()), "all records", 90, interval_s=0.2)
    got = Counter(read())
    assert set(got) == set(wanted), "records came that were never sent"
    # At least once: only records that the killed member had read and not yet committed may be read again.
    killed = Counter(unpack_whole(tmp_path / "0.out"))
    assert not (got - wanted) - killed
    once = list((got & wanted).elements())
    assert corpus.digest_any_order(once) == corpus.digest_any_order(pairs)


def unpack_whole(path: Path) -> list[corpus.Pair]:
    """Return the complete records in a file that may end in the middle of one."""
    data = path.read_bytes() if path.exists() else b""
    return unpack(data, allow_partial=True)
