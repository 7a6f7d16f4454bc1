"""ShareAcknowledge of an operator, against the leader of the partition."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.broker.context import RequestContext
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import Event, ShareRecordsChanged
from broker_cy.security.acls import Operation as Right
from broker_cy.security.acls import ResourceType
from broker_cy.wire import messages as m
from broker_cy.wire.share_operations import (
    SESSION_EPOCH,
    TAG,
    Changed,
    Operation,
    OperatorAction,
    operation_tags,
    read_changed,
)
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.share_service.share_broker import ACCEPT, NONE, Range, ShareBroker

RELEASE, REJECT, REDRIVE = OperatorAction.RELEASE, OperatorAction.REJECT, OperatorAction.REDRIVE
WAIT_MS = 20_000
SETTINGS = {"group.share.record.lock.duration.ms": "60000", "group.share.delivery.count.limit": "2"}
Code = ErrorCode


async def send(
    broker: ShareBroker,
    topic: UUID,
    ranges: Iterable[tuple[int, int]],
    tags: tuple[tuple[int, bytes], ...],
    *,
    member: str | None = "",
    group_id: str | None = "g",
    index: int = 0,
    kinds: Iterable[int] = (),
    epoch: int = SESSION_EPOCH,
) -> Any:
    """Send a request of an operator; returns the answer."""
    request = m.ShareAcknowledgeRequest
    batches = [
        request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
        for first, last in ranges
    ]
    part = request.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
    sent = request(
        group_id=group_id,
        member_id=member,
        share_session_epoch=epoch,
        topics=[request.AcknowledgeTopic(topic_id=topic, partitions=[part])],
        _unknown_tags=tags,
    )
    return await (await broker.connect()).call(sent, 2)


async def change(
    broker: ShareBroker,
    topic: UUID,
    action: OperatorAction,
    *ranges: tuple[int, int],
    is_preview: bool = False,
    **more: Any,
) -> Any:
    """Return the numbers of records that were changed, or the error code and its message."""
    answer = await send(broker, topic, ranges, operation_tags(Operation(action, is_preview)), **more)
    assert answer.error_code == NONE
    (part,) = answer.responses[0].partitions
    return (Code(part.error_code), part.error_message) if part.error_code else read_changed(part._unknown_tags)


def test_an_operator_releases_rejects_and_redrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, operators cannot free a share group of records that hang or that no consumer can process."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            noted: list[ShareRecordsChanged] = []
            events = broker.server.broker.events
            right = events.note

            def note(event: Event) -> None:
                right(event)
                if isinstance(event, ShareRecordsChanged):
                    noted.append(event)

            monkeypatch.setattr(events, "note", note)
            topic = await broker.topic()
            await broker.produce(6)
            a, b = await broker.consumer("a"), await broker.consumer("b")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 5, 1)]
            assert await change(broker, topic, RELEASE, (0, 100), is_preview=True) == Changed(6, 0)
            assert noted == []
            assert await change(broker, topic, RELEASE, (1, 3), member="b") == (
                Code.INVALID_RECORD_STATE,
                "no record of offsets 1 to 3 is locked by member b; in flight: offsets 0 to 5",
            )
            assert await change(broker, topic, RELEASE, (1, 3), member="a") == Changed(3, 0)
            assert await b.fetch(topic, wait_ms=WAIT_MS) == [Range(1, 3, 2)]
            assert await change(broker, topic, REJECT, (1, 1), (3, 3)) == Changed(2, 0)
            assert await b.acknowledge(topic, (1, 1, [ACCEPT])) == Code.INVALID_RECORD_STATE
            # Its second delivery was the last one.
            assert await change(broker, topic, RELEASE, (2, 2)) == Changed(1, 1)
            assert await change(broker, topic, REDRIVE, (0, 3)) == Changed(3, 0)
            assert await b.fetch(topic, wait_ms=WAIT_MS) == [Range(1, 1, 4)]
            assert [(event.action, event.records, event.first_offset, event.last_offset) for event in noted] == [
                ("release", 3, 1, 3),
                ("reject", 2, 1, 3),
                ("release", 1, 2, 2),
                ("redrive", 3, 1, 3),
            ]
            assert (noted[0].group, noted[0].topic, noted[0].partition, noted[0].member_id) == ("g", "t", 0, "a")
            assert noted[0].by.host
            counts = broker.share.counts.by_group()["g"]
            assert {cause.value: number for cause, number in counts.archived.items() if number} == {
                "limit": 1,
                "operator": 2,
            }
            assert {cause.value: number for cause, number in counts.returned.items() if number} == {
                "operator": 3,
                "redrive": 3,
            }

    run(work)


def test_a_fetch_that_waits_gets_released_records(tmp_path: Path) -> None:
    """If this fails, released records wait for the next fetch of a member."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(2)
            a, b = await broker.consumer("a"), await broker.consumer("b")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 1, 1)]
            waiting = broker.share.loop.create_task(b.fetch(topic, wait_ms=WAIT_MS))
            await until(lambda: broker.is_waiting("g"))
            assert await change(broker, topic, RELEASE, (0, 1)) == Changed(2, 0)
            assert await waiting == [Range(0, 1, 2)]

    run(work)


def test_changes_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator is not told why nothing was changed, or a wrong request changes something."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(2)
            idle = await change(broker, topic, RELEASE, (0, 1))
            assert idle[0] == Code.INVALID_RECORD_STATE
            assert "no member of group g fetches the partition now" in idle[1]
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 1, 1)]
            before = broker.shares()[0].in_flight()
            assert await change(broker, topic, REDRIVE, (0, 1 << 62)) == (
                Code.INVALID_RECORD_STATE,
                "no record is archived; in flight: offsets 0 to 1",
            )
            for ranges in ([], [(1, 0)], [(-1, 0)]):
                assert (await change(broker, topic, REJECT, *ranges))[0] == Code.INVALID_REQUEST
            assert (await change(broker, UUID(int=7), REJECT, (0, 1)))[0] == Code.UNKNOWN_TOPIC_ID
            assert (await change(broker, topic, REJECT, (0, 1), index=9))[0] == Code.UNKNOWN_TOPIC_OR_PARTITION
            tags = operation_tags(Operation(REJECT, False))
            assert (await send(broker, topic, [(0, 1)], ((TAG, b"?"),))).error_code == Code.INVALID_REQUEST
            assert (await send(broker, topic, [(0, 1)], tags, group_id=None)).error_code == Code.INVALID_REQUEST
            # A broker that does not know the field has no session for the request.
            unknown = await send(broker, topic, [(0, 1)], (), member="x", kinds=[3])
            assert unknown.error_code == Code.SHARE_SESSION_NOT_FOUND
            assert (await send(broker, topic, [(0, 1)], (), member="a", kinds=[3])).error_code == (
                Code.INVALID_SHARE_SESSION_EPOCH
            )
            monkeypatch.setattr(type(broker.server.broker.share), "is_enabled", False)
            assert (await send(broker, topic, [(0, 1)], tags)).error_code == Code.UNSUPPORTED_VERSION
            assert broker.shares()[0].in_flight() == before

    run(work)


def test_the_rights_of_altered_offsets_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a client that may not read the group or its topics takes records from its consumers."""

    async def work() -> None:
        async with ShareBroker(tmp_path, SETTINGS) as broker:
            topic = await broker.topic()
            await broker.produce(2)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 1, 1)]
            asked: list[tuple[Right, ResourceType, str]] = []

            def allows(_: RequestContext, right: Right, kind: ResourceType, name: str) -> bool:
                asked.append((right, kind, name))
                return kind != ResourceType.GROUP

            with monkeypatch.context() as patch:
                patch.setattr(RequestContext, "allows", allows)
                tags = operation_tags(Operation(RELEASE, False))
                refused = await send(broker, topic, [(0, 1)], tags)
                assert refused.error_code == Code.GROUP_AUTHORIZATION_FAILED
                assert asked == [(Right.READ, ResourceType.GROUP, "g")]
            with monkeypatch.context() as patch:
                patch.setattr(RequestContext, "allowed", lambda _, right, kind, names: set())
                found = await change(broker, topic, RELEASE, (0, 1))
                assert found[0] == Code.TOPIC_AUTHORIZATION_FAILED
            assert [run[2] for run in broker.shares()[0].in_flight()] == [1]

    run(work)
