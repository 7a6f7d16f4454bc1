"""The active controller: exists while this node leads the metadata quorum, from the moment when everything before its
epoch is in the image.

An operation is validated and applied to the uncommitted state as soon as it is submitted, and its records are appended.
When the quorum has committed them, the image takes them over, subscribers get the change, and the replies are sent, in
this order. If records cannot be written (disk full), the operations that depend on them fail, and the next operation
tries again. If leadership is lost, every operation that was not committed is answered with NOT_CONTROLLER, although a
later leader may still commit it: the client has to look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from broker_cy.controller.activation import Activate
from broker_cy.controller.controller import Controller
from broker_cy.controller.operation import Operation, OperationContext
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import framing
from broker_cy.quorum.step import Append, NotLeaderError, Proposal

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.control.image.committed_metadata import CommittedMetadata
    from broker_cy.control.quorum.quorum_driver import QuorumDriver
    from broker_cy.controller.heartbeats import Heartbeats
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.image import BrokerImage
    from broker_cy.metadata.records import VersionedRecord

R = TypeVar("R")

# Operations that wait for their commit. A connection has at most one of them; beyond this bound, clients send faster
# than the disks sync, and receive a retriable error.
WAITING_MAX = 10_000


class Waiting(NamedTuple):
    """An operation whose reply is sent when everything below `end_offset` is committed."""

    end_offset: int
    future: asyncio.Future[Any]
    reply: Any


class ActiveController:
    """`submit` runs an operation; the owner calls `commit`, `not_written` and `end`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        randomness: Randomness,
        loop: asyncio.AbstractEventLoop,
        driver: QuorumDriver,
        committed: CommittedMetadata,
    ) -> None:
        """The image of `committed` has everything from before the epoch of this node."""
        self.epoch = driver.quorum.epoch
        self._config = config
        self._clock = clock
        self._randomness = randomness
        self._loop = loop
        self._driver = driver
        self._committed = committed
        self._controller = Controller(committed.image)
        for offset in range(committed.end_offset, driver.quorum.end_offset):
            # The epoch begins with control records, which change nothing here.
            self._controller.skip_to(offset)
        self._waiting: deque[Waiting] = deque()  # by the end offset that they wait for, ascending
        self._high_watermark = 0
        self._bootstrap: list[VersionedRecord] = []
        self._activation_end = 0  # the end of the records of Activate in the log; -1: they could not be written
        self._aborted_at = -1  # the offset of the record that aborts a transaction of an earlier leader
        self._counted_bytes = driver.appended_bytes

    @property
    def heartbeats(self) -> Heartbeats:
        """When the registered brokers were last heard from; on the monotonic clock, in milliseconds."""
        return self._controller.heartbeats

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        """The registered brokers, as accepted operations leave them, committed or not."""
        return self._controller.state.brokers

    def activate(self, bootstrap: list[VersionedRecord]) -> asyncio.Future[None]:
        """Submit the operation that comes first. See Activate; raises MetadataLogError. If its records cannot be
        written, the next operation submits it again.
        """
        self._bootstrap = bootstrap
        if self._committed.in_transaction:
            self._aborted_at = self._driver.quorum.end_offset
        self._activation_end = 0
        activated = self._submit(Activate(bootstrap, self._committed.in_transaction))
        self._activation_end = self._driver.quorum.end_offset
        return activated

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """Run the operation; the future yields its reply once its records, and all before them, are committed.

        Raises KafkaError, here or from the future: the operation's own errors, KAFKA_STORAGE_ERROR if the records could
        not be written, NOT_CONTROLLER if this node no longer leads.
        """
        if self._activation_end < 0:
            # Its error is that of the operation, whose records are behind.
            self.activate(self._bootstrap).add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._submit(operation)

    def _submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        if len(self._waiting) >= WAITING_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{WAITING_MAX} changes of the metadata are waiting for their commit"
            )
        now_ms = self._clock.wall_ms()
        offset = self._driver.quorum.end_offset
        context = OperationContext(
            now_ms,
            self._randomness.kafka_uuid,
            self._config,
            offset,
            int(self._clock.monotonic() * 1000),
            self._controller.heartbeats,
        )
        batches, reply = self._controller.run(operation, context)
        proposals = []
        for batch in batches:
            proposals.append(Proposal(len(batch), framing.data_batch(batch, offset, self.epoch, now_ms)))
            offset += len(batch)
        if proposals:
            try:
                self._driver.step(Append(self.epoch, self._driver.quorum.end_offset, tuple(proposals)))
            except NotLeaderError as error:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        else:
            self._loop.call_soon(self._reply)
        future: asyncio.Future[R] = self._loop.create_future()
        self._waiting.append(Waiting(offset, future, reply))
        return future

    def commit(self, high_watermark: int) -> None:
        """Everything below `high_watermark` is committed: publish it, and reply."""
        if high_watermark <= self._high_watermark:
            return
        self._high_watermark = high_watermark
        delta = self._controller.commit(high_watermark, self.epoch)
        if 0 <= self._aborted_at < high_watermark:
            # Not before: if this node leads no longer, it reads from the log how the transaction ends.
            self._committed.abort_transaction()
            self._aborted_at = -1
        if delta is not None:
            size_bytes = self._driver.appended_bytes - self._counted_bytes
            self._counted_bytes += size_bytes
            self._committed.changed(delta, size_bytes)
        self._reply()

    def not_written(self, error: KafkaError, end_offset: int) -> None:
        """The log ends at `end_offset`: the operations behind it have not happened."""
        self._controller.abandon(end_offset)
        if end_offset <= self._aborted_at:
            self._aborted_at = -1
        if end_offset < self._activation_end:
            self._activation_end = -1
        self._fail(error, end_offset)

    def end(self, reason: str) -> None:
        """This node leads no longer."""
        self._controller.abandon()
        self._fail(KafkaError(ErrorCode.NOT_CONTROLLER, reason), -1)

    def _reply(self) -> None:
        """Answer the operations whose records, and all before them, are committed."""
        while self._waiting and self._waiting[0].end_offset <= self._high_watermark:
            _, future, reply = self._waiting.popleft()
            if not future.done():
                future.set_result(reply)

    def _fail(self, error: KafkaError, end_offset: int) -> None:
        while self._waiting and self._waiting[-1].end_offset > end_offset:
            future = self._waiting.pop().future
            if not future.done():
                future.set_exception(error)
