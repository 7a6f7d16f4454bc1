"""Batches to the leaders of the target: one request for each leader, with one batch of each partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker_cy.admin.caller import Caller, Leaders
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.connection import OVERDUE, ConnectionFailed
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.pool import Link, Peer, common_version
from broker_cy.client.transaction import WrongState
from broker_cy.client.transaction_errors import PRODUCE, verdict_on
from broker_cy.client.transaction_errors import Verdict as Answered
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.core.uuid import ZERO
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey
from broker_mirror.copy.actions import Produce, Verdict
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.producer import BatchProducer
from broker_mirror.copy.restamp import Piece, produce_parts
from broker_mirror.copy.topic_ids import KnownIds
from broker_mirror.formats.source_offsets import TopicIds

FENCED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
"""Another owner has the transactional id, or the coordinator has ended a transaction that took too long."""
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# The transaction, or the producer id, has failed, not the partition.
_FAILED: Final = (
    *FENCED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


def verdict_of(error: ClientError) -> Verdict:
    """Return how a batch failed."""
    if error.code is None:
        return Verdict.RETRY if error.retriable else Verdict.FAILED
    if error.code in _TOO_LARGE:
        return Verdict.TOO_LARGE
    if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return Verdict.ORDER
    if error.code in _FAILED:
        return Verdict.FAILED
    if verdict_on(PRODUCE, error.code) in (Answered.RETRY, Answered.RETRY_SOON, Answered.FIND):
        return Verdict.RETRY
    return Verdict.REFUSED


class Sending:
    """Sends the batches of the machine, and reports each answer to it. The requests of one leader leave in the order of
    the calls: `produce` waits for nothing before that if leaders are known and connections are open. `answered` is
    called after each answer.
    """

    def __init__(
        self,
        caller: Caller,
        machine: CopyMachine,
        producer: BatchProducer,
        ids: KnownIds,
        request_bytes_max: int,
        now_ms: Callable[[], int],
        answered: Callable[[], None],
    ) -> None:
        self._caller, self._machine, self._producer, self._ids = caller, machine, producer, ids
        self._request_bytes_max, self._now_ms, self._answered = request_bytes_max, now_ms, answered
        self._leaders = Leaders(caller.metadata)

    async def produce(self, actions: Sequence[Produce]) -> None:
        by_key: dict[TopicPartition, list[Produce]] = {}
        for action in actions:
            by_key.setdefault(TopicPartition(*action.target), []).append(action)
        deadline = self._caller.deadline()
        try:
            places, failed = await self._leaders.locate(list(by_key), deadline)
            await self._producer.enlist([key for keys in places.values() for key in keys])
        except (ClientError, WrongState) as error:
            for action in actions:
                self._refused(action, error)
            return
        for key, failure in failed.items():
            for action in by_key[key]:
                self._refused(action, failure)
        if self._has_others(by_key):
            return
        sends = []
        for peer, keys in places.items():
            waiting: dict[TopicPartition, Sequence[Produce]] = {key: by_key[key] for key in keys}
            while waiting:
                request, waiting = _request_of(waiting, self._request_bytes_max)
                sends.append(self._send(peer, request, deadline))
        await asyncio.gather(*sends)

    def _has_others(self, by_key: Mapping[TopicPartition, Sequence[Produce]]) -> bool:
        """Return whether a topic of the target is another one now: then nothing is sent. Its partitions stop, or begin
        again.
        """
        others = False
        for key, actions in by_key.items():
            source = actions[0].source
            present = TopicIds(target=self._caller.metadata.topic_id(key.topic))
            text = self._ids.problem(source, key.topic, present)
            if text is None:
                continue
            others = True
            for action in actions:
                self._machine.refused(action, Verdict.REFUSED, text, self._now_ms())
            if self._ids.may_begin_again(source[0]):
                self._machine.begin_again([source])
            else:
                self._machine.problem(source, text, self._now_ms(), lasts=True)
        if others:
            text = "a topic of the target was created again"
            for action in [action for actions in by_key.values() for action in actions]:
                self._machine.refused(action, Verdict.FAILED, text, self._now_ms())
            self._answered()
        return others

    async def _send(self, peer: Peer, request: Mapping[TopicPartition, Produce], deadline: Deadline) -> None:
        try:
            answers = await self._ask(peer, request, deadline)
        except ClientError as error:
            self._leaders.forget(request)
            for action in request.values():
                self._refused(action, error)
            return
        for key, action in request.items():
            part = answers.get((key.topic, key.partition))
            if part is None:
                self._refused(action, ClientError(Failure.MALFORMED, "the answer lacks the partition", api=PRODUCE))
            elif part.error_code == ErrorCode.NONE:
                self._machine.stored(action, part.base_offset, _latency_ms(action))
            elif part.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._machine.stored(action, -1, _latency_ms(action))
            else:
                self._answered_with(peer, key, action, ErrorCode(part.error_code), part.error_message or "")
        self._answered()

    def _answered_with(self, peer: Peer, key: TopicPartition, action: Produce, code: ErrorCode, reason: str) -> None:
        piece = action.piece
        assert isinstance(piece, Piece)
        if code is ErrorCode.CORRUPT_MESSAGE and not piece.is_valid():
            topic, partition = action.source
            where = f"partition {topic}-{partition} of the source"
            text = f"{where}: the batch at offset {piece.first} is damaged: its checksum is wrong"
            self._machine.refused(action, Verdict.REFUSED, text, self._now_ms())
            return
        what = f"partition {key} of the target"
        self._refused(action, ClientError(Failure.REFUSED, reason, broker=peer.name, api=PRODUCE, code=code, what=what))

    async def _ask(
        self, peer: Peer, request: Mapping[TopicPartition, Produce], deadline: Deadline
    ) -> dict[tuple[str, int], messages.ProduceResponse.PartitionProduceResponse]:
        """Send one batch to each of these partitions. Raises ClientError."""
        ids = {key.topic: self._caller.metadata.topic_id(key.topic) for key in request}
        link = await self._caller.pool.link(peer, deadline)
        has_ids = ZERO not in ids.values()
        at_least, at_most = self._producer.versions(has_topic_id=has_ids)
        version = common_version(link, ApiKey.PRODUCE, PRODUCE, at_least, at_most)
        topics: dict[str, list[tuple[int, Piece, int]]] = {}
        identity = next(iter(request.values())).identity
        for key, action in request.items():
            piece = action.piece
            assert isinstance(piece, Piece)
            topics.setdefault(key.topic, []).append((key.partition, piece, action.sequence))
        parts = produce_parts(
            version,
            self._producer.transactional_id,
            deadline.left_ms,
            [(name, ids[name].bytes, of_topic) for name, of_topic in topics.items()],
            *identity,
            self._producer.transactional_id is not None,
        )
        data = await _exchange(link, version, parts, deadline)
        try:
            answer = codec.decode(messages.ProduceResponse, version, data)
        except WireError as error:
            raise ClientError(Failure.MALFORMED, str(error), broker=peer.name, api=PRODUCE) from None
        names = {each.bytes: name for name, each in ids.items()}
        return {
            (topic.name if version < 13 else names.get(topic.topic_id.bytes, ""), part.index): part
            for topic in answer.responses
            for part in topic.partition_responses
        }

    def _refused(self, action: Produce, error: Exception) -> None:
        verdict = Verdict.FAILED
        if isinstance(error, ClientError):
            verdict = verdict_of(error)
            if verdict is Verdict.RETRY:
                self._leaders.forget([TopicPartition(*action.target)])
        self._machine.refused(action, verdict, str(error), self._now_ms())
        self._answered()


def _latency_ms(action: Produce) -> int | None:
    newest_ms = action.piece.max_timestamp
    return max(0, int(time.time() * 1000) - newest_ms) if newest_ms >= 0 else None


def _request_of(
    waiting: Mapping[TopicPartition, Sequence[Produce]], bytes_max: int
) -> tuple[dict[TopicPartition, Produce], dict[TopicPartition, Sequence[Produce]]]:
    """Return the batches of the next request, one of each partition, and those that are left."""
    request: dict[TopicPartition, Produce] = {}
    left: dict[TopicPartition, Sequence[Produce]] = {}
    size = 0
    for key, actions in waiting.items():
        piece_bytes = actions[0].piece.size_bytes
        if request and size + piece_bytes > bytes_max:
            left[key] = actions
            continue
        request[key] = actions[0]
        size += piece_bytes
        if len(actions) > 1:
            left[key] = actions[1:]
    return request, left


async def _exchange(link: Link, version: int, parts: Sequence[bytes | memoryview], deadline: Deadline) -> memoryview:
    """Send a request at once, without a turn: the machine bounds what is in flight. Raises ClientError."""
    connection = link.connection
    answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
    try:
        async with asyncio.timeout_at(deadline.at):
            connection.ask_parts(ApiKey.PRODUCE, version, parts, answer)
            return await answer
    except TimeoutError:
        connection.close(OVERDUE)
        reason = f"no answer within {deadline.timeout_s:g} s"
        raise ClientError(Failure.TIMED_OUT, reason, broker=link.name, api=PRODUCE) from None
    except ConnectionFailed as error:
        raise ClientError(Failure.UNREACHABLE, str(error), broker=link.name, api=PRODUCE) from None
    finally:
        answer.cancel()
