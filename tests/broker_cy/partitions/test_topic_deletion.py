"""Deleting a topic of ten thousand segments frees its space soon, and no client waits for that."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.storage import removal
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run
from tests.broker_cy.coordinator_services.group_client import Connection

SEGMENTS = 10_000
# Segments that are open when the topic is deleted.
READ = 300
CHANGES = ("unlink", "remove", "rename", "replace", "rmdir", "truncate")
DEADLINE_S = 30


class CallsByThread:
    """Counts calls that change directories: (function, whether the loop called it)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[tuple[str, bool]] = Counter()
        loop_thread = threading.get_ident()
        for name in CHANGES:
            original = getattr(os, name)

            def counted(
                *arguments: Any, name: str = name, original: Callable[..., Any] = original, **named: Any
            ) -> Any:
                self.counts[name, threading.get_ident() == loop_thread] += 1
                return original(*arguments, **named)

            monkeypatch.setattr(os, name, counted)


async def fill(broker: GroupBroker) -> Any:
    """Create a topic `large` of SEGMENTS segments in partition 0; returns its log."""
    settings = [messages.CreateTopicsRequest.CreatableTopicConfig(name="file.delete.delay.ms", value="0")]
    wanted = messages.CreateTopicsRequest.CreatableTopic(
        name="large", num_partitions=1, replication_factor=1, configs=settings
    )
    answer = await broker.call(messages.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    partition = broker.server.broker.partitions.get("large", 0)
    assert partition is not None
    log = partition.log
    for number in range(SEGMENTS):
        log.append(encode_batch([Record(number, 1_000, b"k", b"v")], base_offset=number, leader_epoch=0), 1_000)
        log.begin_segment(1_000)
    for number in range(READ):
        assert log.read_slice(number) is not None
    return log


async def produce(connection: Connection) -> None:
    """Produce a record to another topic."""
    data = encode_batch([Record(0, 1_000, b"k", b"v")])
    partition = messages.ProduceRequest.PartitionProduceData(index=0, records=data)
    topics = [messages.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    answer = await connection.call(messages.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.fixture
def directory() -> Iterator[Path]:
    """Use a directory in memory if possible: a disk takes many seconds to create fifty thousand files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as path:
        yield Path(path)


@pytest.mark.full
def test_ten_thousand_segments_go_while_others_are_served(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, deleting a large topic stops every producer for seconds, or frees no space."""
    answered = 0
    parts: list[int] = []
    more_answers = threading.Condition()
    original = removal.remove_some

    def remove_some(path: str) -> bool:
        """A part only ends after a client was answered in between: a blocked loop never gets there."""
        with more_answers:
            before = answered
        more = original(path)
        with more_answers:
            assert more_answers.wait_for(lambda: answered > before, DEADLINE_S), "nobody was answered"
        parts.append(answered)
        return more

    monkeypatch.setattr(removal, "remove_some", remove_some)

    async def work() -> None:
        nonlocal answered
        async with GroupBroker(directory) as broker:
            await broker.prepare("t")
            log = await fill(broker)
            files = len(os.listdir(log.directory))
            assert files > 4 * SEGMENTS
            calls = CallsByThread(monkeypatch)
            held = log.read_slice(7)
            data = held.read()
            answer = await broker.call(messages.DeleteTopicsRequest(topic_names=["large"], timeout_ms=10_000), 5)
            assert answer.responses[0].error_code == ErrorCode.NONE
            assert not os.path.exists(log.directory)
            connection = Connection(*await asyncio.open_connection("127.0.0.1", broker.server.listeners[0].port))
            async with asyncio.timeout(DEADLINE_S):
                while any(name.endswith("-delete") for name in os.listdir(directory)):
                    await produce(connection)
                    with more_answers:
                        answered += 1
                        more_answers.notify_all()
            connection.writer.close()
            assert held.read() == data, "what is being sent is cut off"
            # One rename removes the partition, whatever it contains; a worker deletes the files.
            assert calls.counts["rename", True] == 1
            assert not any(calls.counts[name, True] for name in ("unlink", "remove", "rmdir", "truncate"))
            assert calls.counts["unlink", False] >= files
            assert len(parts) >= files // removal.FILES_PER_JOB

    run(work)
