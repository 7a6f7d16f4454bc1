"""A topic of one broker mirrors a topic of another one, is promoted, and is mirrored back (docs/mirror.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message

from broker_cy.metrics.events import MirrorChanged, MirrorFailed, MirrorTruncated
from tests.support.link_sides import LINK, PAUSED, SOURCE_ID, TOPIC, WAIT_S, Side, events, fill, mirrored, produce_one
from tests.support.wait import until

RECORDS = 10_000


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    east, west = Side(tmp_path / "east"), Side(tmp_path / "west")
    east.link("west", west.broker.bootstrap)
    west.link("east", east.broker.bootstrap)
    try:
        yield east, west
    finally:
        east.broker.close()
        west.broker.close()


def test_a_mirror_is_equal_and_can_be_promoted_and_reversed(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror has other records or offsets than its source, a failover loses records, or the way back
    copies the topic again.
    """
    east, west = sides
    east.create()
    fill(east, RECORDS)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    assert sum(east.ends()) > RECORDS
    assert west.segments() == east.segments()
    assert west.read() == east.read()
    assert west.settings()[SOURCE_ID], "the source is not pinned"
    assert produce_one(west, b"too early") == "INVALID_REQUEST"

    # A transaction that is open when the topic is promoted never gets its marker.
    open_one = east.producer(**{"transactional.id": "open"})
    open_one.init_transactions(WAIT_S)
    open_one.begin_transaction()
    open_one.produce(TOPIC, b"open", partition=0)
    open_one.flush(WAIT_S)
    mirrored(east, west)
    committed = east.read()
    parts = west.becomes("active")
    assert [(each.lag_records, each.end) for each in parts] == [(0, end) for end in east.ends()]
    assert sum(each.bytes for each in parts) == sum(map(len, east.segments().values()))
    until(lambda: {each.lag_ms for each in west.mirrors()} == {0}, "a lag of 0")
    common = {name: len(data) for name, data in east.segments().items()}
    west.alter(LINK, None)
    until(lambda: isinstance(produce_one(west, b"promoted"), Message), "a record after the promotion")
    until(lambda: west.ends("read_committed") == west.ends(), "the end of the open transaction")
    assert [each for each in west.read() if each[2] != b"promoted"] == committed

    # The old source goes on alone, is truncated to the common point, and follows.
    assert isinstance(produce_one(east, b"lost"), Message)
    lost_end = max(east.ends())
    east.alter(LINK, "west")
    mirrored(west, east)
    until(lambda: east.segments() == west.segments(), "equal bytes")
    assert east.read() == west.read()
    for name, size in common.items():
        assert east.segments()[name][:size] == west.segments()[name][:size]
    west.becomes("promoted")
    assert [each.change for each in events(west, MirrorChanged)] == ["began", "promoted"]
    cuts = events(east, MirrorTruncated)
    assert [(each.link, each.cause) for each in cuts if each.before == lost_end] == [("west", "diverged")]


def test_a_paused_mirror_waits_and_goes_on_after_a_restart(sides: tuple[Side, Side]) -> None:
    """If this fails, an operator cannot stop a flow for maintenance, or a restarted broker copies the topic again."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    west.alter(PAUSED, "true")
    before = west.ends()
    assert isinstance(produce_one(east, b"while paused"), Message)
    west.broker.stop()
    west.broker.restart()
    assert west.ends() == before
    west.alter(PAUSED, "false")
    mirrored(east, west)
    assert west.segments() == east.segments()


def test_a_source_that_was_created_again_is_not_mirrored(sides: tuple[Side, Side]) -> None:
    """If this fails, a topic that is created again by mistake empties its mirror, which is the only copy by then."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    until(lambda: west.settings()[SOURCE_ID], "the id of the source")
    before = west.read()
    east.admin.delete_topics([TOPIC])[TOPIC].result(WAIT_S)
    east.create()
    assert isinstance(produce_one(east, b"new"), Message)
    west.becomes("failed", "source_recreated")
    assert west.read() == before
    assert {(each.change, each.link) for each in events(west, MirrorChanged)} == {("began", "east")}
    (failed,) = events(west, MirrorFailed)
    assert (failed.cause, sorted(failed.partitions), failed.partitions_total) == ("source_recreated", [0, 1], 2)
