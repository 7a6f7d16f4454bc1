"""OffsetFetch, versions 1 to 10.

From version 2 on a null list of topics requests all offsets, and errors of the group have a separate field; 5 has the
leader epoch, 7 can request stable offsets only (KIP-447), 8 requests several groups, 9 names the member (KIP-848), 10
names topics by id. A partition without an offset has offset -1 and no error, and so does every partition of an unknown
group. Stable offsets are the newest ones, and their answer waits until they are written; others are those that are
written.
"""

from __future__ import annotations

from asyncio import Future

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import fetch
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.uuid import ZERO
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_GROUP_ERROR = 2
VERSION_GROUPS = 8
VERSION_TOPIC_IDS = 10
NO_OFFSET = -1


@handler(ApiKey.OFFSET_FETCH)
async def offset_fetch(ctx: RequestContext, request: messages.OffsetFetchRequest) -> messages.OffsetFetchResponse:
    if ctx.version >= VERSION_GROUPS:
        found = await ctx.broker.groups.ready_all([group.group_id for group in request.groups])
        started = [
            _start(ctx, group, runtime, request.require_stable)
            for group, runtime in zip(request.groups, found, strict=True)
        ]
        return messages.OffsetFetchResponse(groups=[await _fetched(ctx, each) for each in started])
    topics = None
    if request.topics is not None:
        topics = [
            messages.OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in request.topics
        ]
    group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    (runtime,) = await ctx.broker.groups.ready_all([request.group_id])
    return _old_response(await _fetched(ctx, _start(ctx, group, runtime, request.require_stable)))


FetchGroup = messages.OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup = messages.OffsetFetchResponse.OffsetFetchResponseGroup


class _Started(NamedTuple):
    """The fetch of one group. `asked` are all requested topics; the `unknown` and the `refused` ones among them are not
    fetched. `found` is the answer for the others, of the coordinator or of the checks before it.
    """

    group: FetchGroup
    found: Future[FetchedGroup] | FetchedGroup
    asked: list[messages.OffsetFetchRequest.OffsetFetchRequestTopics] | None
    unknown: list[messages.OffsetFetchRequest.OffsetFetchRequestTopics]
    refused: list[messages.OffsetFetchRequest.OffsetFetchRequestTopics]


def _start(ctx: RequestContext, group: FetchGroup, runtime: GroupRuntime | KafkaError, is_stable: bool) -> _Started:
    asked = group.topics
    if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return _Started(group, _failure(group, ErrorCode.GROUP_AUTHORIZATION_FAILED), asked, [], [])
    unknown: list[messages.OffsetFetchRequest.OffsetFetchRequestTopics] = []
    if ctx.version >= VERSION_TOPIC_IDS and asked is not None:
        unknown = _name_topics(ctx, group)
    refused = _take_refused(ctx, group)
    found: Future[FetchedGroup] | FetchedGroup
    if isinstance(runtime, KafkaError):
        found = _failure(group, runtime.code)
    elif is_stable:
        found = runtime.run(fetch.fetch_stable_offsets, group)
    else:
        found = fetch.fetch_offsets(runtime.machine, group, runtime.unwritten())
    return _Started(group, found, asked, unknown, refused)


def _failure(group: FetchGroup, code: ErrorCode) -> FetchedGroup:
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)


async def _fetched(ctx: RequestContext, started: _Started) -> FetchedGroup:
    group = started.group
    found = await started.found if isinstance(started.found, Future) else started.found
    if found.error_code != ErrorCode.NONE:
        group.topics = started.asked
        return _group_error(ctx.version, group, ErrorCode(found.error_code))
    if group.topics is None and ctx.broker.authorization is not None:
        names = (topic.name for topic in found.topics)
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names, in_list=True)
        found.topics = [topic for topic in found.topics if topic.name in shown]
    if ctx.version >= VERSION_TOPIC_IDS:
        if group.topics is None:
            _add_topic_ids(ctx, found)
        found.topics.extend(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID) for topic in started.unknown)
    found.topics.extend(_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in started.refused)
    return found


def _take_refused(
    ctx: RequestContext, group: messages.OffsetFetchRequest.OffsetFetchRequestGroup
) -> list[messages.OffsetFetchRequest.OffsetFetchRequestTopics]:
    """Remove and return the topics that the client may not describe."""
    if group.topics is None or ctx.broker.authorization is None:
        return []
    shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in group.topics))
    refused = [topic for topic in group.topics if topic.name not in shown]
    group.topics = [topic for topic in group.topics if topic.name in shown]
    return refused


def _name_topics(
    ctx: RequestContext, group: messages.OffsetFetchRequest.OffsetFetchRequestGroup
) -> list[messages.OffsetFetchRequest.OffsetFetchRequestTopics]:
    """Fill in the names of topics requested by id; removes and returns those that do not exist."""
    known, unknown = [], []
    for topic in group.topics or ():
        image = ctx.broker.image.topics.by_id(topic.topic_id)
        if image is None:
            unknown.append(topic)
        else:
            topic.name = image.name
            known.append(topic)
    group.topics = known
    return unknown


def _add_topic_ids(ctx: RequestContext, group: messages.OffsetFetchResponse.OffsetFetchResponseGroup) -> None:
    """Fill in the ids of the topics of an answer; topics that no longer exist have none and are omitted."""
    named = []
    for topic in group.topics:
        image = ctx.broker.image.topics.by_name(topic.name)
        if image is not None:
            topic.topic_id = image.topic_id
            named.append(topic)
    group.topics = named


def _failed(
    topic: messages.OffsetFetchRequest.OffsetFetchRequestTopics, code: ErrorCode
) -> messages.OffsetFetchResponse.OffsetFetchResponseTopics:
    return messages.OffsetFetchResponse.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id or ZERO,
        partitions=[
            messages.OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=-1,
                metadata="",
                error_code=code,
            )
            for index in topic.partition_indexes
        ],
    )


def _group_error(
    version: int, group: messages.OffsetFetchRequest.OffsetFetchRequestGroup, code: ErrorCode
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """An error of the whole group; version 1 can only report it with each partition."""
    if version >= VERSION_GROUP_ERROR:
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_failed(topic, code) for topic in group.topics or ()]
    )


def _old_response(group: messages.OffsetFetchResponse.OffsetFetchResponseGroup) -> messages.OffsetFetchResponse:
    """The answer of versions 1 to 7, which are about one group."""
    return messages.OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            messages.OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    messages.OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
