"""Where partitions begin: at their committed offsets, if both topics are still those that were copied, else by
auto.offset.reset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_mirror.copy.positions import Position, committed_positions, starts
from broker_mirror.copy.topic_ids import KnownIds, difference, lacks
from broker_mirror.flows import Flow
from broker_mirror.formats.source_offsets import CONNECTOR, TopicIds

_EARLIEST: Final = "earliest"


class Begins(NamedTuple):
    """The offsets at which partitions begin, and the reasons for those that have none now."""

    offsets: dict[TopicPartition, int]
    problems: dict[TopicPartition, str]


class Loading:
    """Finds the begins of partitions. It notes the ids of their topics in `ids`."""

    def __init__(self, flow: Flow, source: AdminClient, target: AdminClient, reset: str, ids: KnownIds) -> None:
        self._flow, self._source, self._target = flow, source, target
        self._reset, self._ids = reset, ids

    async def committed(self) -> dict[TopicPartition, Position]:
        """Return the committed positions of the flow. Raises ClientError."""
        return await committed_positions(self._target, self._flow.offsets_topic, self._flow.source, CONNECTOR)

    async def begins(self, keys: Sequence[TopicPartition], committed: Mapping[TopicPartition, Position]) -> Begins:
        """Return where these partitions begin. Raises ClientError if a cluster does not answer."""
        begins = Begins({}, {})
        wanted: dict[str, list[TopicPartition]] = {}
        for key in keys:
            wanted.setdefault(key.topic, []).append(key)
        here, absent = await _topics(self._source, list(wanted))
        there, missing = await _topics(self._target, [self._flow.remote_topic(topic) for topic in here])
        begins.problems.update({key: f"the source answers: {absent[key.topic]}" for key in keys if key.topic in absent})
        of_topics: dict[str, dict[TopicPartition, Position]] = {topic: {} for topic in wanted}
        for key, position in committed.items():
            if key.topic in of_topics:
                of_topics[key.topic][key] = position
        fresh: list[TopicPartition] = []
        again: list[TopicPartition] = []
        for topic, info in here.items():
            mine, remote = wanted[topic], self._flow.remote_topic(topic)
            if remote in missing:
                begins.problems.update(dict.fromkeys(mine, f"the target answers: {missing[remote]}"))
                continue
            present = TopicIds(info.topic_id, there[remote].topic_id)
            if any(lacks(present, position.ids) for position in of_topics[topic].values()):
                # A topic that is being created: without its id, it could be another one.
                begins.problems.update(dict.fromkeys(mine, f"the id of topic {topic} or {remote} is not known now"))
                continue
            # One partition, also of another process, is enough to stop the topic.
            texts = {
                key: text
                for key, position in of_topics[topic].items()
                if (text := difference(position.ids, present, topic, remote)) is not None
            }
            if texts and not self._ids.may_begin_again(topic):
                begins.problems.update(dict.fromkeys(mine, next(iter(texts.values()))))
                continue
            numbers = {part.partition for part in there[remote].partitions}
            for key in mine:
                if key.partition not in numbers:
                    begins.problems[key] = (
                        f"topic {remote} of the target has {len(numbers)} partitions, and none for partition {key}"
                    )
                    continue
                self._ids.begin(key, present)
                if key in texts:
                    again.append(key)
                elif key in committed:
                    begins.offsets[key] = committed[key].offset
                else:
                    fresh.append(key)
        await self._find(begins, fresh, self._reset)
        await self._find(begins, again, _EARLIEST)
        return begins

    async def _find(self, begins: Begins, keys: Sequence[TopicPartition], reset: str) -> None:
        """Add the begins of partitions by auto.offset.reset."""
        try:
            found, failed = await starts(self._source, keys, reset, int(time.time() * 1000))
        except ClientError as error:
            found, failed = {}, dict.fromkeys(keys, error)
        begins.offsets.update(found)
        begins.problems.update({key: f"the source answers: {error}" for key, error in failed.items()})


async def _topics(client: AdminClient, names: Sequence[str]) -> tuple[dict[str, TopicInfo], dict[str, ClientError]]:
    """Return the topics, and the reasons for those that are not found. Raises ClientError."""
    return await client.caller.metadata.refresh(names, client.caller.deadline()) if names else ({}, {})
