"""The index of the partitions of a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.metadata.image import NO_LEADER, MetadataImage
from broker_cy.metadata.partition_index import bits, is_imbalanced, is_reassigning
from broker_cy.metadata.replay import replay
from broker_cy.wire import messages

BROKERS = (1, 2, 3)
REPLICAS = st.permutations(BROKERS).flatmap(lambda order: st.integers(1, 3).map(lambda n: order[:n]))
TOPIC = st.integers(1, 3)
CHANGES = st.one_of(
    st.tuples(st.just("create"), TOPIC, REPLICAS),
    st.tuples(st.just("delete"), TOPIC),
    st.tuples(st.just("grow"), TOPIC, REPLICAS),
    st.tuples(st.just("lead"), TOPIC, st.integers(0, 3), st.sampled_from([NO_LEADER, *BROKERS])),
    st.tuples(st.just("reassign"), TOPIC, st.integers(0, 3), REPLICAS),
    st.tuples(st.just("ask")),
    st.tuples(st.just("absorb")),
    st.tuples(st.just("drop")),
)


def check(image: MetadataImage) -> None:
    """The index selects the same partitions as a scan of all partitions."""
    everything = [(t.name, i, p) for t in image.topics for i, p in t.partitions.items()]

    def names(found: Any) -> list[tuple[str, int]]:
        return sorted((topic.name, index) for topic, index, _ in found)

    for broker in BROKERS:
        wanted = sorted((name, i) for name, i, p in everything if broker in p.replicas)
        assert names(image.topics.with_replica(broker)) == wanted
    for broker in (NO_LEADER, *BROKERS):
        assert names(image.topics.led_by(broker)) == sorted((n, i) for n, i, p in everything if p.leader == broker)
    assert names(image.topics.imbalanced()) == sorted((n, i) for n, i, p in everything if is_imbalanced(p))
    assert names(image.topics.reassigning()) == sorted((n, i) for n, i, p in everything if is_reassigning(p))


def apply(image: MetadataImage, change: tuple[Any, ...]) -> None:
    kind, number, *rest = change
    topic_id = UUID(int=1000 + number)
    topic = image.topics.by_id(topic_id)
    if kind == "create" and topic is None:
        replay(image, messages.TopicRecord(name=f"t{number}", topic_id=topic_id))
    if kind == "delete" and topic is not None:
        replay(image, messages.RemoveTopicRecord(topic_id=topic_id))
    if kind in ("create", "grow") and (topic is not None or kind == "create"):
        replicas = list(rest[0])
        index = len(topic.partitions) if topic else 0
        replay(
            image,
            messages.PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0]
            ),
        )
    if kind in ("lead", "reassign") and topic is not None and rest[0] in topic.partitions:
        record = messages.PartitionChangeRecord(partition_id=rest[0], topic_id=topic_id)
        if kind == "lead":
            record.leader = rest[1]
        else:
            record.replicas = list(rest[1])
            record.adding_replicas = record.replicas[1:]
        replay(image, record)


@settings(deadline=None, max_examples=150)
@given(st.lists(CHANGES, max_size=30))
def test_the_index_finds_what_a_walk_finds(changes: list[tuple[Any, ...]]) -> None:
    """If this fails, a broker that dies keeps the leadership of some of its partitions."""
    image = MetadataImage()
    branch = image.branch()
    for change in changes:
        if change[0] == "ask":
            check(image)
            check(branch.branch())
        elif change[0] == "absorb":
            image.absorb(branch)
            branch = image.branch()
        elif change[0] == "drop":
            branch = image.branch()
        else:
            apply(branch, change)
    check(branch)
    image.absorb(branch)
    check(image)


def test_a_direct_change_drops_the_index() -> None:
    """If this fails, an image that is loaded further after it was asked answers from before."""
    image = MetadataImage()
    apply(image, ("create", 1, [1, 2]))
    check(image)
    apply(image, ("grow", 1, [3]))
    check(image)
    apply(image, ("delete", 1))
    check(image)


def test_bits() -> None:
    """If this fails, partitions of large topics are forgotten."""
    assert list(bits(0)) == []
    assert list(bits(1 << 9_999 | 0b101)) == [0, 2, 9_999]
