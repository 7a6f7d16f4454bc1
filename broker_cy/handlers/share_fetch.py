"""ShareFetch, versions 1 and 2 (record limits, KIP-1206; renewed locks, KIP-1222): a member of a share group acquires
records, and acknowledges those of earlier fetches.

The acknowledgements come first. The records are acquired once these are persisted, so that a lock does not run while
the answer waits for the share coordinator; Kafka does both at once. An answer that a quota throttles acquires nothing;
Kafka acquires records and does not send them.

An unknown topic id is an error of its partitions; the handler of Kafka 4.3.1 fails on it, and answers with
UNKNOWN_SERVER_ERROR.

Sessions are as those of Fetch: the request with epoch 0 opens one and names its partitions, later ones name changes,
and -1 ends it. A session belongs to its connection. As in Kafka, the membership is not checked. Omissions: remote
(tiered) storage.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.connections.share_fetch_answer import ShareFetchAnswer, SharePartitionAnswer
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import share_requests
from broker_cy.handlers.shared.share_requests import LEADER_ERRORS, RENEW_VERSION, Errors, exists, topic_name
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicPartition,
    next_epoch,
    rotated,
)
from broker_cy.share_service.share_fetch import Fetched, FetchRequest, FetchResult, failed
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.quotas.rate import PacedRate

Request = messages.ShareFetchRequest
# Acquire modes (KIP-1206).
BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1


@handler(ApiKey.SHARE_FETCH)
async def share_fetch(ctx: RequestContext, request: Request) -> ShareFetchAnswer:
    is_renew_ack = ctx.version >= RENEW_VERSION and request.is_renew_ack
    try:
        key = share_requests.session_key(ctx, request.group_id, request.member_id)
        if is_renew_ack:
            _check_renewal(request)
        session = _session_of(ctx, key, request)
    except KafkaError as error:
        if error.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await ctx.broker.share.pause(ctx.connection_id, max(0, request.max_wait_ms))
        return ShareFetchAnswer(error.code)
    is_final = request.share_session_epoch == FINAL_EPOCH
    asked = [] if is_final else list(session.partitions)
    names = {known.topic for known in session.partitions.values()} | {
        topic_name(ctx, topic.topic_id) for topic in request.topics
    }
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, [name for name in names if name is not None])
    errors: Errors = {}
    if _has_acknowledgements(request):
        errors = await share_requests.acknowledge(ctx, key, request.topics, readable, is_renew_ack=is_renew_ack)
    result = FetchResult({})
    if not is_renew_ack:
        try:
            result = await _fetch(ctx, key, request, session, asked, readable)
        except KafkaError as error:
            return ShareFetchAnswer(error.code)
    answer = _answered(ctx, request, session, result, is_final=is_final)
    _add_acknowledgements(answer, errors)
    answer.lock_ms = ctx.broker.share.config_of(key.group_id).lock_ms
    if is_final:
        ctx.broker.share.close_session(session)
    return answer


def _check_renewal(request: Request) -> None:
    """A request that renews locks fetches nothing, so that its answer does not wait. Raises KafkaError."""
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _has_acknowledgements(request: Request) -> bool:
    return any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)


def _session_of(ctx: RequestContext, key: SessionKey, request: Request) -> ShareSession:
    """Open or update the session of the request. Raises KafkaError."""
    sessions, names = ctx.broker.share.sessions, partial(topic_name, ctx)
    wanted = [
        TopicPartition(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    if request.share_session_epoch == INITIAL_EPOCH:
        if _has_acknowledgements(request):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return sessions.open(key, ctx.connection_id, wanted, names)
    forgotten = [
        TopicPartition(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]
    return sessions.update(key, request.share_session_epoch, wanted, forgotten, names)


async def _fetch(
    ctx: RequestContext,
    key: SessionKey,
    request: Request,
    session: ShareSession,
    asked: list[TopicPartition],
    readable: set[str],
) -> FetchResult:
    """Acquire records of the partitions `asked` that the client may read. Raises KafkaError."""
    service = ctx.broker.share
    refused: dict[TopicPartition, Fetched] = {}
    interested: list[TopicPartition] = []
    for each in asked:
        known = session.partitions.get(each)
        name = known.topic if known is not None else None
        if name is None:
            refused[each] = failed(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        elif name not in readable:
            refused[each] = failed(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif not exists(ctx, each):
            refused[each] = failed(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            interested.append(each)
    if not interested:
        return FetchResult(refused)
    if ctx.version >= RENEW_VERSION and request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        # Kafka's handler fails on it.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if request.max_bytes < 0:
        # Its log fails.
        return FetchResult(
            {**refused, **{each: failed(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)) for each in interested}}
        )
    max_bytes = min(request.max_bytes, ctx.broker.config["fetch.max.bytes"])
    rate = _quota(ctx)
    if rate is not None:
        max_bytes = rate.allowed(max_bytes, service.now_ms())
    result = await service.fetch(
        ctx.connection_id,
        FetchRequest(
            key.group_id,
            key.member_id,
            rotated(interested, request.share_session_epoch),
            max(0, request.max_wait_ms),
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.max_records,
            request.batch_size,
            ctx.version >= RENEW_VERSION and request.share_acquire_mode == RECORD_LIMIT,
            _is_live(ctx, session, next_epoch(request.share_session_epoch)),
            None if rate is None else partial(_charge, rate, ctx),
        ),
    )
    return result._replace(found=result.found | refused)


def _is_live(ctx: RequestContext, session: ShareSession, epoch: int) -> Callable[[], bool]:
    """The session may end, or be used on another connection, while its request waits."""
    sessions = ctx.broker.share.sessions
    return lambda: sessions.get(session.key) is session and session.epoch == epoch


def _quota(ctx: RequestContext) -> PacedRate | None:
    quotas = ctx.broker.quotas
    return quotas.account(ctx.principal, (ctx.client_id or "").encode()).fetch if quotas.is_on else None


def _charge(rate: PacedRate, ctx: RequestContext, size: int) -> int:
    """Charge an answer, and return for how long the client is throttled; then it is not charged."""
    now_ms = ctx.broker.share.now_ms()
    wait_ms = rate.charge(size, now_ms)
    if wait_ms:
        rate.record(-size, now_ms)
        rate.note_wait(wait_ms)
    return wait_ms


def _answered(
    ctx: RequestContext, request: Request, session: ShareSession, result: FetchResult, *, is_final: bool
) -> ShareFetchAnswer:
    """The answer, without acknowledgements."""
    answer = ShareFetchAnswer(throttle_time_ms=result.throttle_ms, from_disk=result.from_disk)
    is_later = not is_final and request.share_session_epoch != INITIAL_EPOCH
    if is_later and session.epoch != next_epoch(request.share_session_epoch):
        # A request on another connection came between.
        answer.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        return answer
    topics: dict[UUID, list[SharePartitionAnswer]] = {}
    for partition, fetched in result.found.items():
        error = fetched.error
        if is_later and not session.is_answered(
            partition, has_records=bool(fetched.parts), has_error=error is not None
        ):
            continue
        part = SharePartitionAnswer(partition.partition, parts=fetched.parts, acquired=fetched.acquired)
        if error is not None:
            part.error_code = error.code
            part.error_message = error.message or None
            if error.code in LEADER_ERRORS:
                leader = share_requests.current_leader(ctx, partition)
                part.leader_id, part.leader_epoch = leader.leader_id, leader.leader_epoch
                if leader.address is not None:
                    answer.leaders[leader.leader_id] = leader.address
        topics.setdefault(partition.topic_id, []).append(part)
    answer.topics = [(topic_id.bytes, parts) for topic_id, parts in topics.items()]
    return answer


def _add_acknowledgements(answer: ShareFetchAnswer, errors: Errors) -> None:
    """Add the results of acknowledgements to the partitions of an answer, and partitions that have no other result."""
    if not errors:
        return
    topics = dict(answer.topics)
    places = {(topic_id, part.index): part for topic_id, parts in answer.topics for part in parts}
    for partition, error in errors.items():
        topic_id = partition.topic_id.bytes
        part = places.get((topic_id, partition.partition))
        if part is None:
            part = SharePartitionAnswer(partition.partition)
            topics.setdefault(topic_id, []).append(part)
        if error is not None:
            part.acknowledge_error_code = error.code
            part.acknowledge_error_message = error.message or None
    answer.topics = list(topics.items())
