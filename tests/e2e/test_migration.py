"""A running Apache Kafka cluster is migrated to broker-cy, and back to Kafka, while real clients work.

The commands are those of docs/migrating.md. No record is lost or duplicated (tests/history/checker.py), and no client
reports an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.history.cluster_work import Work
from tests.support import needs
from tests.support.cluster import quorum
from tests.support.migration import WAIT_S, Migration, brokers, migration
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.kafka]

PREPARE, START, MOVE, EXCHANGE, RETURN = "1. Prepare", "2. Start", "3. Move", "4. Exchange", "5. Migrate back"


OLD, NEW = (1, 2, 3), (4, 5, 6)


def begin_work(found: Migration) -> Work:
    return Work([found.nodes[number] for number in OLD], found.servers())


def all_on(found: Migration, work: Work, numbers: tuple[int, ...]) -> None:
    """Check that only nodes of one kind are left, that they hold everything, and that the clients continue."""
    work.nodes = [found.nodes[number] for number in numbers]
    work.go_on()
    work.in_sync()
    held = {replica for topic in ("in", "out") for part in work.metadata(topic) for replica in part.replica_nodes}
    assert held == set(numbers)
    described = quorum(found.nodes[numbers[0]].port)
    assert {voter.replica_id for voter in described.current_voters} == set(numbers)
    assert brokers(found.nodes[numbers[0]].port) == len(numbers)
    assert not any(node.alive() for number, node in found.nodes.items() if number not in numbers)


def check(found: Migration, work: Work) -> None:
    """Check that no record is lost or duplicated, and that no client reported an error."""
    work.finish()
    reported = work.errors()
    assert not reported, "\n".join(reported[:20])
    for node in found.nodes.values():
        assert "Traceback" not in node.stderr(), node.stderr()


@pytest.mark.timeout(600)
def test_kafka_becomes_ours(tmp_path: Path) -> None:
    """If this fails, the migration that docs/migrating.md describes loses records, or stops clients."""
    with migration(tmp_path, static_voters=False) as found:
        work = begin_work(found)
        try:
            work.go_on()
            found.write_files(NEW)
            found.do(found.commands(START)[0])
            work.go_on()
            found.do(found.commands(MOVE)[0])
            work.go_on()
            for block in found.commands(EXCHANGE)[:2]:
                found.do(block)
                work.go_on()
            all_on(found, work, NEW)
            check(found, work)
        finally:
            work.stop()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_kafka_becomes_ours_and_kafka_again(tmp_path: Path) -> None:
    """The whole page: static voters at first, each step back and again, and the migration back with Kafka's tools."""
    with migration(tmp_path, static_voters=True) as found:
        work = begin_work(found)
        try:

            def do(lines: Sequence[str]) -> str:
                said = found.do(lines)
                work.go_on()
                return said

            (forth,) = found.commands(PREPARE)
            do(forth)
            found.write_files(NEW)
            forth, back = found.commands(START)
            for lines in (forth, back):
                do(lines)
            for number in NEW:
                found.wipe(number)
            do(forth)
            forth, back = found.commands(MOVE)
            until_first_drain = next(at for at, line in enumerate(forth, 1) if " drain " in line)
            for lines in (forth[:until_first_drain], back, forth):
                do(lines)
            votes, exchange, back = found.commands(EXCHANGE)
            for lines in (votes, exchange[:3], back, votes, exchange):
                do(lines)
            all_on(found, work, NEW)
            # The migration back, to new nodes with the old ids.
            for number in OLD:
                found.wipe(number)
            found.write_files(OLD)
            nodes, cordons, moves, controllers = found.commands(RETURN)
            for lines in (nodes, cordons, moves):
                do(lines)
            until(lambda: "still in progress" not in found.do(moves[-1:]), "the moves", WAIT_S, 1.0)
            do(controllers)
            all_on(found, work, OLD)
            check(found, work)
        finally:
            work.stop()
