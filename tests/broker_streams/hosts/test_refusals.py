"""Records that the cluster refuses: which ones are dropped, and that all others are written once, in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_cy.admin import ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Appended, size_of
from broker_cy.admin.transactional import TransactionalProducer
from broker_cy.client.transaction import GroupMetadata, State, WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.record import Record
from broker_streams.hosts.embedded.refusals import Retried
from broker_streams.hosts.embedded.writer import Offsets, Writer
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.task_timeout import COMMIT, TaskTimeout
from broker_streams.kernel.errors import ErrorContext, RefusedRecord, Response, Result, StreamsError

LARGE = 5_000


class Cluster(TransactionalProducer):
    """A producer whose topics refuse batches above LARGE bytes, and records with the value b"bad". `written` are the
    records of topics that count.
    """

    def __init__(self, *, is_transactional: bool, tells_records: bool = True) -> None:
        self._is_transactional, self._tells_records = is_transactional, tells_records
        self.written: dict[str, list[Record]] = {}
        self._open: dict[str, list[Record]] = {}
        self._failed = False
        self.later: set[str] = set()
        self.sent = 0

    @property
    def state(self) -> State:
        return State.READY

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self._open, self._failed = {}, False
        yield
        assert not self._failed
        for topic, records in self._open.items():
            self.written.setdefault(topic, []).extend(records)

    async def commit_offsets(self, *arguments: Any) -> None:
        pass

    async def send(self, topic: str, records: Iterable[Record], **options: Any) -> tuple[Appended, ...]:
        return await self.send_batches(TopicPartition(topic, 0), [list(records)])

    async def send_batches(
        self, partition: TopicPartition, batches: Iterable[Sequence[Record]]
    ) -> tuple[Appended, ...]:
        await asyncio.sleep(0)
        for batch in batches:
            self.sent += 1
            if self._is_transactional and self._failed:
                raise WrongState("the transaction must be aborted")
            self._check(partition.topic, batch)
            to = self._open if self._is_transactional else self.written
            to.setdefault(partition.topic, []).extend(batch)
        return ()

    def _check(self, topic: str, batch: Sequence[Record]) -> None:
        code, indices = None, [index for index, each in enumerate(batch) if each.value == b"bad"]
        if topic in self.later:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        elif sum(map(size_of, batch)) > LARGE:
            code, indices = ErrorCode.MESSAGE_TOO_LARGE, []
        elif indices:
            code = ErrorCode.INVALID_RECORD
        if code is not None:
            self._failed = True
            records = tuple(indices) if self._tells_records else ()
            raise ClientError(Failure.REFUSED, "refused", code=code, records=records)


class Task:
    """Answers for the handler, and notes the records that it was asked about."""

    def __init__(self, result: Result, letters: bool = False) -> None:
        self._result, self._letters = result, letters
        self.asked: list[tuple[bytes, str]] = []

    def refused(self, output: Any, error: RefusedRecord, *, has_letters: bool = True) -> Response:
        if not has_letters:
            return Response(self._result)
        self.asked.append((output[2], error.code))
        context = ErrorContext("sink", (0, 0), None, -1, -1, 0, (), output[2], None, None, "dead")
        return Response(self._result, context.dead_letters(error) if self._letters else ())


def commit(cluster: Cluster, task: Task, *outputs: tuple[str, int | None, bytes, bytes]) -> Results:
    guarantee = "exactly_once_v2" if cluster._is_transactional else "at_least_once"
    config = {"application.id": "a", "bootstrap.servers": "localhost:1", "processing.guarantee": guarantee}
    client: Any = None
    writer = Writer(client, HostSettings.of(config), "a-1", TaskTimeout(0))
    writer._producer = cluster
    results = Results()
    for topic, partition, key, value in outputs:
        results.add([(topic, partition, key, value, 0, ())], task)
    asyncio.run(writer.commit(results, Offsets({}, {}), GroupMetadata("a")))
    return results


BOTH = pytest.mark.parametrize("is_transactional", [True, False])


@BOTH
@pytest.mark.parametrize("tells_records", [True, False])
@pytest.mark.parametrize("partition", [0, None])
def test_refused_records_alone_are_dropped(is_transactional: bool, tells_records: bool, partition: int | None) -> None:
    """If this fails, one bad record takes others with it, or results are written twice, or in another order."""
    cluster, task = Cluster(is_transactional=is_transactional, tells_records=tells_records), Task(Result.RESUME)
    values = [b"%d" % number for number in range(40)]
    for number in (3, 4, 20):
        values[number] = b"bad"
    values[30] = bytes(2 * LARGE)
    outputs = [("out", partition, b"k%d" % number, value) for number, value in enumerate(values)]
    results = commit(cluster, task, *outputs, ("other", 0, b"k", b"v"))
    kept = [number for number in range(40) if number not in (3, 4, 20, 30)]
    assert [each.key for each in cluster.written["out"]] == [b"k%d" % number for number in kept]
    assert [each.key for each in cluster.written["other"]] == [b"k"]
    bad = "INVALID_RECORD"
    assert sorted(task.asked) == [(b"k20", bad), (b"k3", bad), (b"k30", "MESSAGE_TOO_LARGE"), (b"k4", bad)]
    assert {topic: records for topic, (records, _) in results.traffic().items()} == {"out": 36, "other": 1}


@BOTH
def test_the_letter_of_a_record_comes_once(is_transactional: bool) -> None:
    """If this fails, a record that was dropped has no dead letter, or several after another transaction."""
    cluster = Cluster(is_transactional=is_transactional)
    commit(
        cluster,
        Task(Result.RESUME, letters=True),
        ("out", 0, b"a", b"bad"),
        ("out", 0, b"b", b"1"),
        ("more", 0, b"c", b"bad"),
    )
    assert sorted(each.key or b"" for each in cluster.written["dead"]) == [b"a", b"c"]
    assert [each.key for each in cluster.written["out"]] == [b"b"]
    assert "more" not in cluster.written


def test_a_topic_with_small_batches_is_remembered() -> None:
    """If this fails, each commit to a topic with a small max.message.bytes is sent several times."""
    cluster = Cluster(is_transactional=False)
    outputs = [("out", 0, b"k", b"0123456789")] * 300
    config = {"application.id": "a", "bootstrap.servers": "localhost:1", "processing.guarantee": "at_least_once"}
    client: Any = None
    writer = Writer(client, HostSettings.of(config), "a-1", TaskTimeout(0))
    writer._producer = cluster
    sent = []
    for _ in range(2):
        results, cluster.sent = Results(), 0
        results.add([(*output, 0, ()) for output in outputs], Task(Result.FAIL))
        asyncio.run(writer.commit(results, Offsets({}, {}), GroupMetadata("a")))
        sent.append(cluster.sent)
    assert len(cluster.written["out"]) == 600
    assert sent[1] < sent[0]
    # No batch is refused.
    assert sent[1] == 4


@BOTH
def test_a_handler_that_fails_ends_the_application(is_transactional: bool) -> None:
    """If this fails, refused records are lost without a decision."""
    cluster = Cluster(is_transactional=is_transactional)
    with pytest.raises(StreamsError, match="a record for topic out was refused: INVALID_RECORD"):
        commit(cluster, Task(Result.FAIL, letters=True), ("out", 0, b"a", b"bad"), ("out", 0, b"b", b"1"))
    assert cluster.written.keys() == (set() if is_transactional else {"dead"})


@BOTH
def test_a_retry_loses_the_tasks(is_transactional: bool) -> None:
    """If this fails, a cluster without enough replicas ends applications."""
    cluster = Cluster(is_transactional=is_transactional)
    cluster.later = {"out"}
    with pytest.raises(Retried, match="NOT_ENOUGH_REPLICAS") as retried:
        commit(cluster, Task(Result.RETRY), ("out", 0, b"a", b"1"))
    assert retried.value.is_member


def test_failures_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a cluster that is away fills the logs of its applications."""
    now_s = 0.0
    timeout = TaskTimeout(60_000, lambda: now_s)
    with caplog.at_level(logging.WARNING, "broker_streams"):
        for now_s in (0.0, 0.1, 9.9, 10.0, 10.1):  # noqa: B007 - `timeout` reads it
            timeout.failed(COMMIT, ClientError(Failure.TIMED_OUT, "no answer"))
    assert [each.message for each in caplog.records] == ["a commit failed and is tried again: no answer"] * 2


def test_only_failures_that_last_end_an_instance() -> None:
    """If this fails, task.timeout.ms has no effect, or old failures count."""
    now_s = 0.0
    timeout = TaskTimeout(60_000, lambda: now_s)
    error = ClientError(Failure.TIMED_OUT, "no answer")
    for now_s in (0.0, 30.0, 60.0):  # noqa: B007 - `timeout` reads it
        timeout.failed(COMMIT, error)
    timeout.passed(COMMIT)
    for now_s in (61.0, 1_000.0, 1_060.0):  # noqa: B007 - `timeout` reads it
        timeout.failed(COMMIT, error)
    now_s = 1_061.0
    timeout.failed("another", error)
    with pytest.raises(StreamsError, match=r"failed for 61000 ms, and task\.timeout\.ms is 60000: no answer"):
        timeout.failed(COMMIT, error)
