"""The records of each share group by the cause for which they were archived or given back, as operators see them."""

from __future__ import annotations

from pathlib import Path

from broker_cy.metrics.events import Event, HeldRecords, ShareLeaderChanged
from broker_cy.share.state_write import StateWrite
from broker_cy.share_service.counts import GROUPS_MAX, Archived, Returned, ShareCounts
from broker_cy.share_service.inspection import groups_by_cause
from broker_cy.telemetry.metrics_page import render
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.share_service.share_broker import ACCEPT, GAP, NONE, REJECT, RELEASE, Range, ShareBroker

WAIT_MS = 20_000
SETTINGS = {"group.share.record.lock.duration.ms": "60000", "group.share.delivery.count.limit": "2"}


async def samples(broker: ShareBroker, family: str) -> dict[str, int]:
    """The lines of a family of the metrics page, by their labels, without those of 0."""
    server = broker.server
    page = (await render(server.broker, server._core, server._watch)).decode()
    lines = (line.rpartition(" ") for line in page.splitlines() if line.startswith(f"{family}{{"))
    return {labels.removeprefix(family): int(number) for labels, _, number in lines if int(number)}


def test_causes_are_counted_for_each_group(tmp_path: Path) -> None:
    """If this fails, operators do not see why a share group gives records up, or gets them again."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(6)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 5, 1)]
            given = (0, 0, [RELEASE]), (1, 2, [REJECT]), (3, 3, [ACCEPT]), (4, 4, [GAP])
            assert await a.acknowledge(topic, *given) == NONE
            flight = "broker_cy_share_group_in_flight_records"
            assert await samples(broker, flight) == {'{group="g",deliveries="1"}': 2}
            last = "broker_cy_share_group_last_attempt_records"
            assert await samples(broker, last) == {}

            assert await a.fetch(wait_ms=WAIT_MS) == [Range(0, 0, 2)]
            assert await samples(broker, flight) == {'{group="g",deliveries="1"}': 1, '{group="g",deliveries="2"}': 1}
            assert await samples(broker, last) == {'{group="g"}': 1}
            assert await a.acknowledge(topic, (0, 0, [RELEASE])) == NONE
            a.connection.writer.close()
            await until(lambda: broker.share.counts.released_by_sessions == 1)

            archived = "broker_cy_share_group_archived_records_total"
            assert await samples(broker, archived) == {
                '{group="g",cause="reject"}': 2,
                '{group="g",cause="limit"}': 1,
                '{group="g",cause="missing"}': 1,
            }
            returned = "broker_cy_share_group_returned_records_total"
            assert await samples(broker, returned) == {
                '{group="g",cause="release"}': 1,
                '{group="g",cause="session"}': 1,
            }

    run(work)


def test_locks_that_end_are_a_cause(tmp_path: Path) -> None:
    """If this fails, records of a consumer that hangs look as if the consumer had released them."""

    async def work() -> None:
        async with ShareBroker(tmp_path, {"group.share.delivery.count.limit": "2"}) as broker:
            topic = await broker.topic()
            await broker.produce(2)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 1, 1)]
            assert await a.fetch(wait_ms=WAIT_MS) == [Range(0, 1, 2)]
            await until(lambda: broker.share.counts.archived_at_limit == 2)
            ((group_id, counts),) = groups_by_cause(broker.share, 10)
            assert (group_id, counts.total) == ("g", 4)
            assert (counts.returned[Returned.TIMEOUT], counts.archived[Archived.LIMIT]) == (2, 2)

    run(work)


def test_counts_of_groups_are_bounded() -> None:
    """If this fails, clients that use new group ids for ever fill the memory of the broker."""
    counts = ShareCounts()
    write = StateWrite(0, 0, 0, 0, ((0, 0, 1, 0),), True)
    for number in range(GROUPS_MAX + 1):
        counts.expired(f"g{number}", write)
    kept = counts.by_group()
    assert len(kept) == GROUPS_MAX
    assert "g0" not in kept
    assert "g1" in kept
    assert counts.expired_locks == GROUPS_MAX + 1


def test_records_that_left_the_log_stay_counted(tmp_path: Path) -> None:
    """If this fails, the counts of a group fall when a share partition moves to another broker."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(4)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 3, 1)]
            assert await a.acknowledge(topic, (0, 3, [RELEASE])) == NONE
            partition = broker.server.broker.partitions.get("t", 0)
            assert partition is not None
            broker.server._delete_before(partition, 2)
            await a.fetch()
            ((_, before),) = groups_by_cause(broker.share, 10)
            assert before.archived[Archived.MISSING] == 2
            broker.share._drop(list(broker.share.table))
            ((_, after),) = groups_by_cause(broker.share, 10)
            assert after.archived == before.archived

    run(work)


def test_a_change_of_the_leader_is_a_cause(tmp_path: Path) -> None:
    """If this fails, records that come again after a broker was restarted look as if consumers had returned them."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            told: list[Event] = []
            broker.share.leader_changes.on_event = told.append
            topic = await broker.topic()
            await broker.produce(5)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 4, 1)]
            assert await a.acknowledge(topic, (0, 0, [ACCEPT]), (2, 2, [RELEASE])) == NONE
            broker.share._drop(list(broker.share.table))
            await until(lambda: bool(told))
            # The released record was available before, and the accepted one is done.
            assert told == [ShareLeaderChanged("g", 3, [HeldRecords("t", 0, 3, 1)], 1)]
            returned = "broker_cy_share_group_returned_records_total"
            assert await samples(broker, returned) == {
                '{group="g",cause="release"}': 1,
                '{group="g",cause="leader"}': 3,
            }
            # The interrupted delivery is not counted.
            assert await a.fetch(wait_ms=WAIT_MS) == [Range(1, 1, 1), Range(2, 2, 2), Range(3, 4, 1)]

    run(work)


def test_records_of_a_deleted_topic_do_not_come_again(tmp_path: Path) -> None:
    """If this fails, the deletion of a topic is reported as a change of its leader."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            told: list[Event] = []
            broker.share.leader_changes.on_event = told.append
            topic = await broker.topic()
            await broker.produce(2)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 1, 1)]
            await broker.delete("t")
            await until(lambda: not broker.shares())
            assert await samples(broker, "broker_cy_share_group_returned_records_total") == {}
            assert told == []

    run(work)
