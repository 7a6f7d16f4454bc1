"""The invariants of a broker's partitions, checked after each turn of its loop."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from broker_cy.metadata.topic_names import OWN_TOPICS
from broker_cy.replica.replica import Role

if TYPE_CHECKING:
    from tests.sim.world.machine import Machine


# Turns between two checks of partitions in which nothing seems to have changed.
ALL_EVERY = 10


def check_partitions(machine: Machine) -> None:
    """Raises AssertionError if offsets are not in their order, if the high watermark or the log start go back, or if a
    partition has the log of another topic.
    """
    assert machine.server is not None
    checks_all = machine.turns % ALL_EVERY == 0
    known, nothing = machine.high_watermarks, (0, 0, 0)
    topic_ids = machine.server.broker.log_manager.topic_ids
    places = machine.server.broker.partitions.by_name.values()
    for partition in chain.from_iterable(places):
        if partition is None or partition.offline is not None or partition.unopened:
            continue
        log = partition.log
        watermark, end = partition.high_watermark, log.log_end_offset
        before, end_before, start_before = known.get(partition, nothing)
        if watermark == before and end == end_before and not checks_all:
            continue
        start, written = log.log_start_offset, log.written_end_offset
        # Clients may not read a log that has begun again until all replicas in sync have: the next leader may not have
        # begun again, and the log begins once more, where that begins.
        known[partition] = watermark if partition.replica.begun_at < 0 else 0, end, start
        name = (machine.host, partition.topic, partition.index)
        belongs_to = topic_ids[partition.topic, partition.index]
        assert belongs_to == partition.topic_id, f"{name} of {partition.topic_id} has the log of {belongs_to}"
        assert start <= watermark <= written <= end, f"{name}: {start} <= {watermark} <= {written} <= {end} is wrong"
        # If a leader has deleted a part of a batch, and a follower's empty log begins within this batch, the follower
        # begins again with the whole batch. A log that had begun again may also begin once more after a start, with all
        # that was not committed in it. Nothing was readable.
        follows = machine.world.plan.is_cluster and partition.replica.role != Role.LEADER
        begins_again = follows and watermark == start and start_before == before
        # The only replica with records of the brokers' own topics (min.insync.replicas=1) may lose power and these
        # records. A follower of an uncleanly elected leader may lose records, too.
        may_lose = (partition.topic in OWN_TOPICS and not machine.world.keeps_unsynced) or partition.topic[0] == "u"
        mirrors = machine.world.mirrors
        may_lose = may_lose or (mirrors is not None and mirrors.may_go_back(machine, partition.topic))
        assert watermark >= before or begins_again or may_lose, (
            f"{name}: the high watermark goes back from {before} to {watermark}"
        )
        stable = log.last_stable_offset(watermark)
        assert max(stable, start) <= watermark, f"{name}: the last stable offset is {stable} of {watermark}"
        if machine.floors:
            floor = machine.floors.get((partition.topic_id, partition.index), 0)
            assert start >= floor, f"{name}: records below {floor} were deleted, and the log starts at {start}"
        if machine.world.plan.is_synced:
            assert watermark <= log.synced_end_offset, f"{name}: {watermark} is readable and not synced"
