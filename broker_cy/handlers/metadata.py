"""Metadata (3), versions 0-13.

Topics: in version 0 an empty list means all; from version 1 on a null list means all and an empty one none. From
version 12 on topics may be named by id; if one is, names are ignored. Topics that do not exist are created if the
request (from version 4 on) and `auto.create.topics.enable` allow it, in the background: this answer has
UNKNOWN_TOPIC_OR_PARTITION, and the client retries. Brokers are returned with their address on the listener of the
request. A response that names a suspected broker as a leader waits for the verdict of the controller, and one for named
topics lists brokers that were fenced just now (control.watch.suspects).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image import metadata_view
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.create_topics import CREATION_VERSION, create_topics
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.MetadataResponse

# Partitions whose answers are kept until the image changes. About 400 bytes each.
CACHED_PARTITIONS_MAX = 20_000
_COUNT = "metadata handler: partitions kept"


@handler(
    ApiKey.METADATA,
    versions=(0, 13),
    requires="DESCRIBE on each topic; CREATE on the cluster or the topic to create it",
)
def metadata(
    ctx: RequestContext, request: messages.MetadataRequest
) -> messages.MetadataResponse | Awaitable[messages.MetadataResponse]:
    response = _answer(ctx, request)
    if len(response.brokers) > 1 and _leaders(response) - {ctx.broker.node_id, NO_LEADER}:
        return _after_verdict(ctx, request)
    return response


async def _after_verdict(ctx: RequestContext, request: messages.MetadataRequest) -> messages.MetadataResponse:
    await ctx.broker.suspects.verdict(lambda: _leaders(_answer(ctx, request)))
    return _answer(ctx, request)


def _leaders(response: messages.MetadataResponse) -> set[int]:
    return {partition.leader_id for topic in response.topics for partition in topic.partitions}


def _answer(ctx: RequestContext, request: messages.MetadataRequest) -> messages.MetadataResponse:
    version = ctx.version
    asked = request.topics or []
    every = request.topics is None or (version == 0 and not asked)
    if version < 12 and any(topic.name is None or topic.topic_id != uuids.ZERO for topic in asked):
        return _invalid(asked, ErrorCode.INVALID_REQUEST)
    if any(topic.name is None and topic.topic_id == uuids.ZERO for topic in asked):
        # Kafka's handler fails on a topic that is not named at all.
        return _invalid(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
    image = ctx.broker.image
    refused: list[Any] = []
    if every:
        topics = [_cached(image, topic, ctx.listener, version) for topic in _described(ctx, image.topics)]
    elif any(topic.topic_id != uuids.ZERO for topic in asked):
        topics, refused = _by_id(ctx, image, asked)
    else:
        names = list(dict.fromkeys(topic.name for topic in asked if topic.name is not None))
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
        refused = [_refused(name) for name in names if name not in shown]
        names = [name for name in names if name in shown]
        absent = [name for name in names if image.topics.by_name(name) is None]
        if absent and request.allow_auto_topic_creation and ctx.broker.config["auto.create.topics.enable"]:
            creatable = _creatable(ctx, absent)
            create = partial(create_topics, ctx.as_request_of(ApiKey.CREATE_TOPICS, CREATION_VERSION))
            ctx.broker.auto_topics.create([name for name in absent if name in creatable], create)
            not_creatable = [name for name in absent if name not in creatable]
            refused = [_refused(name, topic_names.is_internal(name)) for name in not_creatable] + refused
            names = [name for name in names if name not in not_creatable]
        topics = _by_name(image, names, ctx.listener, version)
    if version >= 8 and request.include_topic_authorized_operations:
        topics = [topic if topic.name is None else _with_operations(ctx, topic) for topic in topics]
    topics += refused
    also = frozenset() if every else _departed(ctx, topics)
    visible = list(metadata_view.visible_brokers(image, ctx.listener, also=also))
    if not visible:
        # No broker is in service yet, and librdkafka forgets all brokers if a response has none: it may never come back
        # to this one, whose transaction then hangs. So this broker, which runs, is shown while it is still fenced.
        also = frozenset((ctx.broker.node_id,))
        visible = list(metadata_view.visible_brokers(image, ctx.listener, also=also))
    brokers = [
        Response.MetadataResponseBroker(
            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker, endpoint in visible
    ]
    response = Response(
        brokers=brokers,
        cluster_id=ctx.broker.cluster_id,
        controller_id=metadata_view.a_controller(
            [each.node_id for each in brokers if each.node_id not in also], ctx.broker.randomness
        ),
        topics=topics,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ctx.cluster_operations()
    return response


def _described(ctx: RequestContext, topics: Iterable[TopicImage]) -> Iterable[TopicImage]:
    """The topics that the client may describe; the answer omits all others."""
    if ctx.broker.authorization is None:
        return topics
    return (topic for topic in topics if ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, in_list=True))


def _creatable(ctx: RequestContext, names: list[str]) -> set[str]:
    if ctx.allows_cluster(Operation.CREATE, in_list=True):
        return set(names)
    return ctx.allowed(Operation.CREATE, ResourceType.TOPIC, names)


def _refused(name: str, is_internal: bool = False) -> Any:
    """The id is not shown either: whether the topic exists is not for this client."""
    return Response.MetadataResponseTopic(
        error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=name, is_internal=is_internal
    )


def _departed(ctx: RequestContext, topics: list[Any]) -> frozenset[int]:
    """The brokers with replicas of the topics that were fenced just now."""
    departed = ctx.broker.departed.ids
    if not departed:
        return departed
    return departed & {each for topic in topics for partition in topic.partitions for each in partition.replica_nodes}


def _by_name(image: MetadataImage, names: list[str], listener: str, version: int) -> list[Any]:
    topics = []
    for name in names:
        topic = image.topics.by_name(name)
        if topic is not None:
            topics.append(_cached(image, topic, listener, version))
            continue
        error = metadata_view.absent_topic_error(name)
        topics.append(
            Response.MetadataResponseTopic(error_code=int(error), name=name, is_internal=topic_names.is_internal(name))
        )
    return topics


def _by_id(ctx: RequestContext, image: MetadataImage, asked: list[Any]) -> tuple[list[Any], list[Any]]:
    """Answer topics by id, and those that the client may not describe: unknown ids first, as in Kafka; names beside
    ids are ignored. Ids are no secret, names are.
    """
    known, unknown, refused = [], [], []
    for topic_id in dict.fromkeys(topic.topic_id for topic in asked):
        if topic_id == uuids.ZERO:
            continue
        topic = image.topics.by_id(topic_id)
        if topic is not None and not ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            refused.append(
                Response.MetadataResponseTopic(
                    error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=None, topic_id=topic_id
                )
            )
        elif topic is not None:
            known.append(_cached(image, topic, ctx.listener, ctx.version))
        else:
            unknown.append(
                Response.MetadataResponseTopic(error_code=int(ErrorCode.UNKNOWN_TOPIC_ID), name=None, topic_id=topic_id)
            )
    return unknown + known, refused


def _cached(image: MetadataImage, topic: TopicImage, listener: str, version: int) -> Any:
    """The answer for one topic, kept in the image until that changes. It is shared: it must not be modified."""
    # Versions differ in the error for a leader without the listener, and version 0 hides replicas that are down.
    form = 0 if version == 0 else (5 if version <= 5 else 6)
    key = (metadata, topic.topic_id, listener, form)
    found = image.derived.get(key)
    if found is None:
        found = _topic(image, topic, listener, form)
        kept = image.derived.get(_COUNT, 0) + len(topic.partitions)
        if kept <= CACHED_PARTITIONS_MAX:
            image.derived[_COUNT] = kept
            image.derived[key] = found
    return found


def _topic(image: MetadataImage, topic: TopicImage, listener: str, form: int) -> Any:
    return Response.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(image, index, partition, listener, form) for index, partition in topic.partitions.items()
        ],
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage, listener: str, form: int) -> Any:
    replicas, isr = list(partition.replicas), list(partition.isr)
    error = metadata_view.leader_error(image, partition, listener)
    if error is ErrorCode.LISTENER_NOT_FOUND and form < 6:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    reachable = error is ErrorCode.NONE
    if form == 0:
        replicas = [r for r in replicas if metadata_view.is_reachable(image, r, listener)]
        isr = [r for r in isr if metadata_view.is_reachable(image, r, listener)]
        if reachable and (len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return Response.MetadataResponsePartition(
        error_code=int(error),
        partition_index=index,
        leader_id=partition.leader if reachable else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=metadata_view.offline_replicas(image, partition, listener),
    )


def _with_operations(ctx: RequestContext, topic: Any) -> Any:
    return Response.MetadataResponseTopic(
        error_code=topic.error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=topic.partitions,
        topic_authorized_operations=ctx.operations(ResourceType.TOPIC, topic.name),
    )


def _invalid(asked: list[Any], code: ErrorCode) -> messages.MetadataResponse:
    """No topic is looked up. Versions 10 and 11 have the field for topic ids but do not serve it (KAFKA-14036)."""
    topics = [
        Response.MetadataResponseTopic(error_code=int(code), name=topic.name or "", topic_id=topic.topic_id)
        for topic in asked
    ]
    return Response(topics=topics, error_code=int(code))
