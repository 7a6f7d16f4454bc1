"""The common parts of ShareFetch and ShareAcknowledge (KIP-932): who may send them, their acknowledgements, and the
leaders that their answers name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from broker_cy.broker.context import RequestContext
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.share.sessions import SessionKey, TopicPartition
from broker_cy.share.state_write import AcknowledgeType

if TYPE_CHECKING:
    from broker_cy.share_service.share_service import Acknowledgements

# As long as a UUID in text form.
_MEMBER_ID_MAX: Final = 36
# From this version on locks can be renewed (KIP-1222).
RENEW_VERSION: Final = 2
LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Errors = dict[TopicPartition, KafkaError | None]


def session_key(ctx: RequestContext, group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the group and the member of a request that may be served. Raises KafkaError."""
    if not ctx.broker.share.is_enabled:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member_id or len(member_id) > _MEMBER_ID_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return SessionKey(group_id, member_id)


def topic_name(ctx: RequestContext, topic_id: UUID) -> str | None:
    topic = ctx.broker.image.topics.by_id(topic_id)
    return None if topic is None else topic.name


def exists(ctx: RequestContext, partition: TopicPartition) -> bool:
    topic = ctx.broker.image.topics.by_id(partition.topic_id)
    return topic is not None and partition.partition in topic.partitions


async def acknowledge(
    ctx: RequestContext, key: SessionKey, topics: Iterable[Any], readable: set[str], *, is_renew_ack: bool
) -> Errors:
    """Apply the acknowledgements of a request, and return the errors of its partitions, once they are persisted.
    `readable` are the names of topics that the client may read.
    """
    errors: Errors = {}
    empty: Errors = {}
    wanted: Acknowledgements = {}
    kind_max = AcknowledgeType.RENEW if ctx.version >= RENEW_VERSION else AcknowledgeType.REJECT
    for topic in topics:
        name = topic_name(ctx, topic.topic_id)
        for each in topic.partitions:
            partition = TopicPartition(topic.topic_id, each.partition_index)
            if name is None:
                errors[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not _are_valid(each.acknowledgement_batches, kind_max, is_renew_ack=is_renew_ack):
                errors[partition] = KafkaError(ErrorCode.INVALID_REQUEST)
            elif name not in readable:
                errors[partition] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not exists(ctx, partition):
                errors[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif each.acknowledgement_batches:
                wanted[partition] = [
                    (batch.first_offset, batch.last_offset, bytes(batch.acknowledge_types))
                    for batch in each.acknowledgement_batches
                ]
            else:
                empty[partition] = None
    if not wanted:
        # As in Kafka, partitions without acknowledgements are not named then.
        return errors
    return await ctx.broker.share.acknowledge(key.group_id, key.member_id, wanted) | errors | empty


def _are_valid(batches: Iterable[Any], kind_max: int, *, is_renew_ack: bool) -> bool:
    """Return whether the acknowledgements of a partition have a valid form."""
    previous_last = -1
    for batch in batches:
        kinds = batch.acknowledge_types
        if batch.first_offset > batch.last_offset or batch.first_offset < previous_last or not kinds:
            return False
        if len(kinds) > 1 and batch.last_offset - batch.first_offset != len(kinds) - 1:
            return False
        if min(kinds) < 0 or max(kinds) > kind_max:
            return False
        if AcknowledgeType.RENEW in kinds and not is_renew_ack:
            return False
        previous_last = batch.last_offset
    return True


class Leader(NamedTuple):
    """`address` is (host, port, rack) on the listener of the client; None if it is not known."""

    leader_id: int = -1
    leader_epoch: int = -1
    address: tuple[str, int, str | None] | None = None


def current_leader(ctx: RequestContext, partition: TopicPartition) -> Leader:
    """Return the leader of a partition, as answers with one of LEADER_ERRORS name it (KIP-951)."""
    topic = ctx.broker.image.topics.by_id(partition.topic_id)
    found = topic.partitions.get(partition.partition) if topic is not None else None
    if found is None:
        return Leader()
    broker = ctx.broker.image.brokers.get(found.leader)
    endpoint = broker.listeners.get(ctx.listener) if broker is not None and not broker.fenced else None
    if broker is None or endpoint is None:
        return Leader(found.leader, found.leader_epoch)
    return Leader(found.leader, found.leader_epoch, (endpoint.host, endpoint.port, broker.rack))
