"""The metadata image: branches, commits, and the deltas of subscribers."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.metadata import topic_names
from broker_cy.metadata.image import RESOURCE_TOPIC, ImageDelta, MetadataImage, PartitionImage
from broker_cy.metadata.overlay import Overlay
from broker_cy.metadata.topics import TopicImage
from tests.support.images import topic_in


def uid(n: int) -> UUID:
    return UUID(int=n + 1)


def partition(epoch: int = 0) -> PartitionImage:
    return PartitionImage((1,), (1,), 1, epoch, epoch, (uid(99),))


def topic(name: str, n: int, partitions: int = 1) -> TopicImage:
    return TopicImage(name, uid(n), {i: partition() for i in range(partitions)})


def test_branch_is_not_seen_below_until_absorbed() -> None:
    """If this fails, an operation whose write fails would already be visible to every client."""
    image = MetadataImage()
    image.topics.put(topic("a", 1))
    branch = image.branch()
    branch.topics.put(topic("b", 2))
    branch.topics.partitions_for_write(uid(1))[0] = partition(5)
    branch.topics.partitions_for_write(uid(1))[1] = partition(0)
    branch.configs.set(RESOURCE_TOPIC, "a", "retention.ms", "1")
    assert branch.topics.by_name("b") is not None
    assert image.topics.by_name("b") is None
    assert topic_in(image, uid(1)).partitions == {0: partition()}
    assert image.configs.topic("a") == {}

    delta = image.absorb(branch)
    assert topic_in(image, "b").topic_id == uid(2)
    assert image.configs.topic("a") == {"retention.ms": "1"}
    changed = {t.after.name: (t.before and t.before.partitions, t.after.partitions) for t in delta.topics if t.after}
    assert changed == {
        "a": ({0: partition()}, {0: partition(5), 1: partition(0)}),
        "b": (None, {0: partition()}),
    }
    assert delta.configs == [(RESOURCE_TOPIC, "a")]


def test_delete_and_create_again_in_one_commit() -> None:
    """If this fails, a topic deleted and created within one sync would keep its old log under the new id."""
    image = MetadataImage()
    image.topics.put(topic("a", 1))
    branch = image.branch()
    branch.topics.remove(uid(1))
    assert branch.topics.by_name("a") is None
    branch.topics.put(topic("a", 2))
    delta = image.absorb(branch)
    assert topic_in(image, "a").topic_id == uid(2)
    assert image.topics.by_id(uid(1)) is None
    assert {(t.before.topic_id if t.before else None, t.after.topic_id if t.after else None) for t in delta.topics} == {
        (uid(1), None),
        (None, uid(2)),
    }


def test_created_and_deleted_in_one_commit_is_no_change() -> None:
    """If this fails, the broker would be requested to delete a log that it never created."""
    image = MetadataImage()
    branch = image.branch()
    branch.topics.put(topic("a", 1))
    branch.topics.remove(uid(1))
    assert image.absorb(branch).topics == []


def test_a_branch_keeps_what_was_changed_after_the_part_that_the_image_absorbs() -> None:
    """If this fails, operations that arrive while others are committed would be validated against stale state, or lost
    on commit.
    """
    image = MetadataImage()
    top = image.branch()
    first = top.branch()
    first.topics.put(topic("a", 1))
    first.topics.put(topic("gone", 2))
    top.merge(first)
    second = top.branch()
    second.topics.partitions_for_write(uid(1))[1] = partition(7)
    second.topics.remove(uid(2))
    top.merge(second)
    image.absorb(first)
    top.forget(first)
    assert topic_in(image, uid(1)).partitions == {0: partition()}
    assert topic_in(top, uid(1)).partitions == {0: partition(), 1: partition(7)}
    assert image.topics.by_name("gone") is not None
    assert top.topics.by_name("gone") is None
    image.absorb(second)
    top.forget(second)
    assert topic_in(image, "a").partitions == {0: partition(), 1: partition(7)}
    assert image.topics.by_name("gone") is None
    assert not any(table.changes for table in top._tables() if isinstance(table, Overlay))


def test_copy_does_not_follow() -> None:
    """If this fails, a snapshot that is written while the broker runs would mix two states."""
    image = MetadataImage()
    image.topics.put(topic("a", 1))
    twin = image.copy()
    branch = image.branch()
    branch.topics.partitions_for_write(uid(1))[0] = partition(9)
    branch.topics.put(topic("b", 2))
    image.absorb(branch)
    assert [t.name for t in twin.topics] == ["a"]
    assert topic_in(twin, "a").partitions == {0: partition()}


def test_names_that_topics_have() -> None:
    """If this fails, a group never learns the metadata hash of its topics, as some of them do not exist; or it begins
    an epoch without one that was just created.
    """
    image = MetadataImage()
    image.topics.put(topic("a", 1))
    image.topics.put(topic("b", 2))
    above = image.branch()
    above.topics.remove(uid(1))
    above.topics.put(topic("c", 3))
    wanted = {"a", "b", "c", "d"}
    assert image.topics.existing(wanted) == {"a", "b"}
    assert above.topics.existing(frozenset(wanted)) == {"b", "c"}
    assert image.topics.existing({"a"}) == {"a"}
    assert image.topics.existing(set()) == set()
    assert image.topics.missing([uid(3), uid(1), uid(2)]) == [uid(3)]
    assert above.topics.missing([uid(3), uid(1), uid(2)]) == [uid(1)]


def test_initial_delta_names_everything() -> None:
    """If this fails, after a start the broker would open only part of its partitions."""
    image = MetadataImage()
    image.topics.put(topic("a", 1, 3))
    image.configs.set(RESOURCE_TOPIC, "a", "retention.ms", "1")
    delta = ImageDelta.initial(image)
    assert [(t.before, t.after and t.after.name) for t in delta.topics] == [(None, "a")]
    assert delta.configs == [(RESOURCE_TOPIC, "a")]


operations = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "grow", "config", "commit", "branch", "drop"]), st.integers(0, 4)),
    max_size=40,
)


@given(operations)
def test_branches_agree_with_a_plain_model(steps: list[tuple[str, int]]) -> None:
    """If this fails, the state seen through overlays differs from the state that replaying the log gives."""
    image = MetadataImage()
    committed: dict[str, int] = {}
    pending, model = image.branch(), dict(committed)
    next_id = 10
    for action, n in steps:
        name = f"t.{n}"
        if action == "put" and name not in model:
            next_id += 1
            pending.topics.put(topic(name, next_id))
            model[name] = 1
        elif action == "remove" and name in model:
            pending.topics.remove(topic_in(pending, name).topic_id)
            del model[name]
        elif action == "grow" and name in model:
            pending.topics.partitions_for_write(topic_in(pending, name).topic_id)[model[name]] = partition()
            model[name] += 1
        elif action == "commit":
            image.absorb(pending)
            committed = dict(model)
            pending = image.branch()
        elif action == "drop":
            pending, model = image.branch(), dict(committed)
        assert {t.name: len(t.partitions) for t in pending.topics} == model
        assert {t.name: len(t.partitions) for t in image.topics} == committed
        assert len(pending.topics) == len(model)
        assert (pending.topics.collides_with(f"t_{n}") == name) == (name in model)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than"),
        ("ä", "contains one or more characters other than"),
        ("a\n", "contains one or more characters other than"),
    ],
)
def test_illegal_names(name: str, part: str) -> None:
    """If this fails, a topic would be created whose name is not a valid directory name."""
    reason = topic_names.invalid_reason(name)
    assert reason is not None
    assert part in reason


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "a" * 249])
def test_legal_names(name: str) -> None:
    """If this fails, a name that Kafka accepts would be refused."""
    assert topic_names.invalid_reason(name) is None
