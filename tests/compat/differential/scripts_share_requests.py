"""ShareFetch and ShareAcknowledge with unusual values, in sessions whose member holds records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.layout import Message
from tests.compat.differential.build import UNKNOWN_ID, batch, id_of, put
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_group_requests import GROUP_IDS, share
from tests.compat.differential.variants import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Fields, Pools, pool, variants
from tests.support.wait import until

GROUP_CONFIG = 32
FINAL = -1
WAIT_MS = 300
MEMBER_IDS = pool(None, "", " ", "other", longest="m" * 36, long="m" * 37)
SESSION_EPOCHS = pool(INT32_MIN, -2, -1, 0, 1, 2, INT32_MAX)
# The records 0 to 4 are held, 5 to 9 are not; each batch has five records.
BATCHES: dict[str, list[tuple[int, int, list[int]]]] = {
    "none": [],
    "all": [(0, 4, [1])],
    "each": [(0, 4, [1, 2, 3, 0, 1])],
    "one": [(2, 2, [1])],
    "two": [(0, 1, [2]), (3, 4, [3])],
    "no types": [(0, 4, [])],
    "types for two": [(0, 4, [1, 1])],
    "types for six": [(0, 4, [1] * 6)],
    "type -1": [(0, 4, [-1])],
    "type 4": [(0, 4, [4])],
    "type 5": [(0, 4, [5])],
    "type 127": [(0, 0, [1]), (1, 1, [127])],
    "backwards": [(4, 0, [1])],
    "negative": [(-2, -1, [1])],
    "from -1": [(-1, 0, [1])],
    "least": [(INT64_MIN, INT64_MIN, [1])],
    "most": [(INT64_MAX, INT64_MAX, [1])],
    "all there are": [(INT64_MIN, INT64_MAX, [1])],
    "beyond": [(0, 5, [1])],
    "not held": [(5, 9, [1])],
    "not there": [(100, 100, [1])],
    "overlap": [(0, 2, [1]), (2, 4, [1])],
    "same twice": [(0, 4, [1]), (0, 4, [1])],
    "touching": [(0, 2, [1]), (3, 4, [1])],
    "unordered": [(3, 4, [1]), (0, 2, [1])],
    "good and bad": [(0, 1, [1]), (5, 6, [1])],
    "gaps only": [(0, 4, [0])],
    "renewed": [(0, 4, [4])],
    "renewed among others": [(0, 4, [1, 4, 2, 4, 3])],
}


def _topics(request: Any, name: str, *parts: tuple[Any, int, list[tuple[int, int, list[int]]]]) -> list[Any]:
    """The topics of a ShareFetch ("Fetch") or ShareAcknowledge ("Acknowledge"); each part is a topic of the list."""
    partition, topic = getattr(request, f"{name}Partition"), getattr(request, f"{name}Topic")
    return [
        topic(
            topic_id=topic_id,
            partitions=[
                partition(
                    partition_index=index,
                    acknowledgement_batches=[
                        request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=kinds)
                        for first, last, kinds in batches
                    ],
                )
            ],
        )
        for topic_id, index, batches in parts
    ]


class Sharers:
    """A group whose members each hold the records 0 to 4 of one partition."""

    def __init__(self, run: Run, partitions: int) -> None:
        self.run = run
        self.group = run.name
        self.topic = run.topic(partitions=partitions)
        self.topic_id = id_of(run, self.topic)
        alter = messages.IncrementalAlterConfigsRequest
        values = [
            alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest"),
            alter.AlterableConfig(name="share.record.lock.duration.ms", config_operation=0, value="60000"),
        ]
        resource = alter.AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=self.group, configs=values)
        answer = run.quietly(alter(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer
        for partition in range(partitions):
            put(run, self.topic, partition, *(batch(*(b"%d" % n for n in range(5))) for _ in range(3)))
        share(run, self.topic, self.group)

    def fetch(self, partition: int, member: str, **fields: Any) -> messages.ShareFetchRequest:
        request = messages.ShareFetchRequest
        valid = {
            "group_id": self.group,
            "member_id": member,
            "share_session_epoch": 1,
            "max_bytes": 1 << 20,
            "max_records": 5,
            "batch_size": 5,
            # Kafka's fetch waits for the end of the one before.
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "topics": [],
        }
        return request(**{**valid, **fields})

    def acknowledge(self, partition: int, member: str, **fields: Any) -> messages.ShareAcknowledgeRequest:
        request = messages.ShareAcknowledgeRequest
        topics = _topics(request, "Acknowledge", (self.topic_id, partition, [(0, 4, [1])]))
        valid = {"group_id": self.group, "member_id": member, "share_session_epoch": 1, "topics": topics}
        return request(**{**valid, **fields})

    def hold(self, partition: int, member: str) -> None:
        """Open a session with the partition, and take its first batch; the next epoch is 1."""
        topics = _topics(messages.ShareFetchRequest, "Fetch", (self.topic_id, partition, []))

        def held() -> bool:
            request = self.fetch(partition, member, share_session_epoch=0, topics=topics)
            answer = self.run.quietly(request, 2, "")
            found = [part for topic in answer.responses for part in topic.partitions if part.acquired_records]
            return bool(found)

        until(held, f"{member} to hold records", PATIENCE_S)

    def state(self, partition: int) -> messages.ReadShareGroupStateRequest:
        """Ask for the persisted state of a partition."""
        request = messages.ReadShareGroupStateRequest
        part = request.PartitionData(partition=partition, leader_epoch=-1)
        return request(group_id=self.group, topics=[request.ReadStateData(topic_id=self.topic_id, partitions=[part])])

    def ask_each(
        self, version: int, build: Callable[..., Message], pools: Callable[[int], Pools], seed: int, combinations: int
    ) -> None:
        """Send each variant for a partition of its own, then ask for the state of the partition."""
        for partition, (label, fields) in enumerate(variants(pools(0), seed, combinations)):
            # The values of the topics depend on the partition.
            own = (
                dict(list(variants(pools(partition), seed, combinations))[partition][1])
                if "topics" in fields
                else fields
            )
            member = f"m{partition}"
            self.hold(partition, member)
            self.run.ask(label, build(partition, member, **own), version)
            if fields.get("share_session_epoch") != FINAL:
                # The end of a session releases its records after the answer.
                self.run.ask(f"{label}, then", self.state(partition), 0)


def _topic_values(request: Any, name: str, sharers: Sharers, partition: int) -> dict[str, Any]:
    own = sharers.topic_id
    shapes = {batches: _topics(request, name, (own, partition, values)) for batches, values in BATCHES.items()}
    one: list[tuple[int, int, list[int]]] = [(0, 0, [1])]
    return {
        **shapes,
        "no topics": [],
        "unknown topic": _topics(request, name, (UNKNOWN_ID, 0, one)),
        "unknown partition": _topics(request, name, (own, 100_000, one)),
        "negative partition": _topics(request, name, (own, -1, one)),
        "another partition": _topics(request, name, (own, partition + 1, one)),
        "good and unknown": _topics(request, name, (own, partition, one), (own, 100_000, one)),
        "same partition twice": _topics(request, name, (own, partition, one), (own, partition, [(1, 1, [2])])),
    }


def _sizes() -> Pools:
    return {
        "max_wait_ms": pool(INT32_MIN, -1, 0, WAIT_MS),
        "min_bytes": pool(INT32_MIN, -1, 0, 1, INT32_MAX),
        "max_bytes": pool(INT32_MIN, -1, 0, 1, INT32_MAX),
        "max_records": pool(INT32_MIN, -1, 0, 1, 5, 7, INT32_MAX),
        "batch_size": pool(INT32_MIN, -1, 0, 1, 3, INT32_MAX),
        "share_acquire_mode": pool(-1, 0, 1, 2, 127),
    }


@script(ApiKey.SHARE_FETCH, broker="newer groups")
def share_fetches_with_unusual_values(run: Run, version: int) -> None:
    request = messages.ShareFetchRequest

    def pools(partition: int) -> Pools:
        def forgotten(topic_id: Any, *indexes: int) -> list[Any]:
            return [request.ForgottenTopic(topic_id=topic_id, partitions=list(indexes))]

        sizes = _sizes()
        if version == 1:
            sizes = {field: values for field, values in sizes.items() if field != "share_acquire_mode"}
        return {
            "group_id": {**pool(None), **GROUP_IDS},
            "member_id": MEMBER_IDS,
            "share_session_epoch": SESSION_EPOCHS,
            **sizes,
            "topics": _topic_values(request, "Fetch", sharers, partition),
            "forgotten_topics_data": {
                "unknown": forgotten(UNKNOWN_ID, 0),
                "not in the session": forgotten(sharers.topic_id, 99_999),
                "negative": forgotten(sharers.topic_id, -1),
                "nothing": forgotten(sharers.topic_id),
            },
        }

    sharers = Sharers(run, 170)
    sharers.ask_each(version, sharers.fetch, pools, 9, 60)


@script(ApiKey.SHARE_FETCH, broker="newer groups", versions=[2])
def share_fetches_that_renew(run: Run, version: int) -> None:
    request = messages.ShareFetchRequest

    def pools(partition: int) -> Pools:
        return {**_sizes(), "topics": _topic_values(request, "Fetch", sharers, partition)}

    def build(partition: int, member: str, **fields: Any) -> Message:
        zero: Fields = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0, "is_renew_ack": True}
        zero["topics"] = _topics(request, "Fetch", (sharers.topic_id, partition, [(0, 4, [4])]))
        return sharers.fetch(partition, member, **{**zero, **fields})

    sharers = Sharers(run, 110)
    sharers.ask_each(version, build, pools, 10, 30)


@script(ApiKey.SHARE_ACKNOWLEDGE, broker="newer groups")
def share_acknowledgements_with_unusual_values(run: Run, version: int) -> None:
    request = messages.ShareAcknowledgeRequest

    def pools(partition: int) -> Pools:
        renew = {"is_renew_ack": pool(True, False)} if version >= 2 else {}
        return {
            "group_id": {**pool(None), **GROUP_IDS},
            "member_id": MEMBER_IDS,
            "share_session_epoch": SESSION_EPOCHS,
            **renew,
            "topics": _topic_values(request, "Acknowledge", sharers, partition),
        }

    sharers = Sharers(run, 130)
    sharers.ask_each(version, sharers.acknowledge, pools, 11, 60)
