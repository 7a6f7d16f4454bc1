"""A transactional producer over gevent's sockets: the host of `client.transaction`, in the protocol of
transaction.version 1, whose requests are those of all brokers since 0.11.

Every request is retried after retriable errors, until a deadline. Retries are harmless, because batches have sequences
and the coordinator knows the state of the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gevent

from broker_cy.client.consumer_member import ConsumerMember
from broker_cy.client.transaction import GroupMetadata, ProducerCore, Request, State
from broker_cy.client.transaction_errors import SOON_S, Verdict, code_of, verdict_on
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record, encode_batch
from loadgen.engines.base import CODECS, Work
from loadgen.net.cluster import GROUP, RETRY_S, TRANSACTION, Cluster, Refused, error_name
from loadgen.net.connection import Connection, NetError

# Another producer has this transactional id now, or the coordinator aborted the transaction and raised the epoch.
FENCED = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})
RETRIES = "retries"


class TransactionError(Exception):
    """A step of a transaction failed. `name` is Kafka's name of the error.

    `is_open`: whether some attempt got no answer, so that the step may have been performed.
    """

    def __init__(self, name: str, api: str, *, is_open: bool) -> None:
        super().__init__(f"{api}: {name}")
        self.name, self.is_open = name, is_open


class Transactional:
    """One transactional id. All calls raise TransactionError; after an error, `begin_again` is needed."""

    def __init__(self, work: Work, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._work, self._cluster, self._id = work, cluster, transactional_id
        self._codec = CODECS[work.spec.codec]
        self._core = ProducerCore(transactional_id, timeout_ms)
        self._until_s = 0.0

    def set_deadline(self) -> None:
        """Retry requests for the request timeout from now on; later requests are sent once."""
        self._until_s = time.monotonic() + self._cluster.timeout_s

    def begin_again(self) -> None:
        """Get a producer id and epoch; this aborts an open transaction."""
        self._core.restart()
        self._repeat(self._core.initialize())

    def add_partitions(self, topic: str, partitions: list[int]) -> None:
        """Add partitions to the transaction, which begins with the first."""
        if self._core.state is State.READY:
            self._core.begin()
        request = self._core.add_partitions((topic, each) for each in partitions)
        if request is not None:
            self._repeat(request)

    def produce(self, topic: str, partition: int, records: list[Record]) -> None:
        """Append a batch to a partition of the transaction."""
        batch = self._core.batch((topic, partition))
        data = encode_batch(
            records,
            codec=self._codec,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=True,
        )
        request = self._core.produce(batch, len(records), data, int(self._cluster.timeout_s * 1000))
        self._repeat(request, records=len(records), size_bytes=len(data))

    def commit_offsets(self, member: ConsumerMember, topic: str, offsets: Mapping[int, int]) -> None:
        """Add the group's offsets to the transaction, fenced by the member's generation (KIP-447)."""
        settings = member.settings
        request = self._core.add_offsets(settings.group_id)
        if request is not None:
            self._repeat(request)
        group = GroupMetadata(settings.group_id, member.generation, member.member_id, settings.instance_id)
        self._repeat(self._core.commit_offsets(group, {(topic, number): at for number, at in offsets.items()}))

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction."""
        request = self._core.end(commit=commit)
        if request is not None:
            self._repeat(request)

    def _connection(self, request: Request) -> Connection:
        """Return the connection to the broker that a request goes to."""
        to = request.to
        if to.partition is not None:
            return self._cluster.leader(*to.partition)
        if to.group_id is not None:
            return self._cluster.coordinator(GROUP, to.group_id)
        return self._cluster.coordinator(TRANSACTION, self._id)

    def _forget(self, request: Request) -> None:
        """Look up the broker that a request goes to again."""
        to = request.to
        if to.partition is not None:
            self._cluster.forget(to.partition[0])
        elif to.group_id is not None:
            self._cluster.forget_coordinator(GROUP, to.group_id)
        else:
            self._cluster.forget_coordinator(TRANSACTION, self._id)

    def _repeat(self, request: Request, *, records: int = 1, size_bytes: int = 0) -> None:
        """Send a request until the verdict on its answer is not to retry it; count it."""
        meter = self._work.book.meter(request.api)
        began_ns = time.monotonic_ns()
        is_open = False
        while True:
            answer: Any = None
            try:
                answer = self._connection(request).call(request.message, request.answer, at_most=request.at_most)
            except NetError as error:
                name, verdict, is_open = error.name, Verdict.FIND, is_open or error.sent
            except Refused as error:
                name, verdict = error.name, verdict_on(request.api, error.code)
            else:
                name = error_name(code) if (code := code_of(request.api, answer)) else ""
                verdict = self._core.take(request, answer)
            if verdict is Verdict.DONE:
                meter.done(began_ns, began_ns, time.monotonic_ns(), records, size_bytes)
                return
            if verdict in (Verdict.ABORTABLE, Verdict.FATAL) or time.monotonic() > self._until_s:
                meter.failed(name, began_ns, began_ns, time.monotonic_ns())
                raise TransactionError(name, request.api, is_open=is_open or name == ErrorCode.REQUEST_TIMED_OUT.name)
            self._work.book.count(RETRIES)
            if verdict is Verdict.RETRY_SOON:
                gevent.sleep(SOON_S)
                continue
            self._forget(request)
            gevent.sleep(RETRY_S)
