"""A group that reads very many topics: what one turn of the loop does for it, counted in topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator import group_machine
from broker_cy.coordinator.consumer import group as consumer_group
from broker_cy.coordinator.consumer import records, regex
from broker_cy.coordinator.consumer.group import ResolvedRegex
from broker_cy.coordinator.modern import assigning, epochs, journal, metadata_hash, topic_values
from broker_cy.coordinator.modern.metadata_hash import NO_TOPICS_HASH
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.coordinator.step import GroupStep
from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicDelta
from broker_cy.metadata.topics import TopicImage, TopicsImage
from broker_cy.wire import codec
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, durable

TOPICS = 60
# A topic with one partition counts as two.
PER_TURN = 20
TURNS_MAX = 20


class Counting(ConsumerHarness):
    """`hashed_max` is the largest number of topics that one operation has hashed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.hashed = self.hashed_max = 0
        right = metadata_hash._topic_hash

        def counted(topic: TopicImage, image: MetadataImage, of_brokers: dict[tuple[int, ...], bytes]) -> int:
            self.hashed += 1
            return right(topic, image, of_brokers)

        patch.setattr(metadata_hash, "_topic_hash", counted)
        patch.setattr(epochs, "HASHED_PER_TURN", PER_TURN)
        topics = Topics(**{f"t{number}": 1 for number in range(TOPICS)})
        super().__init__(topics, consumer=ConsumerGroupSettings(assignment_interval_ms=0))

    def run(self, operation: Any, *request: Any) -> GroupStep:
        before = self.hashed
        step = super().run(operation, *request)
        self.hashed_max = max(self.hashed_max, self.hashed - before)
        return step

    def beats(self, token: str) -> None:
        member = self.consumers().members["A"]
        self.beat(token, "A", member.epoch, owned=member.assigned)
        self.works_end()

    @property
    def hash_now(self) -> int:
        return self.consumers().compute_metadata_hash(self.topics.image, {})


def test_a_search_that_matches_very_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait while an expression that matches 10,000 topics is looked up."""
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    assert (h.hashed, h.hashed_max) == (TOPICS, PER_TURN // 2)
    assert len(h.consumers().resolved[".*"].topics) == TOPICS
    assert h.consumers().metadata_hash == h.hash_now
    h.beats("assign")
    h.beats("move")
    assert len(h.consumers().members["A"].assigned) == TOPICS


def test_a_topic_that_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group keeps the number of partitions that a topic had during the search."""
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.work()
    h.work()
    assert not h.consumers().resolved
    for number in range(TOPICS):
        h.change(h.topics.put(f"t{number}", 2))
    h.works_end()
    assert h.consumers().metadata_hash == h.hash_now
    for token in ("assign", "move"):
        h.beats(token)
    assert len(h.topics.places(h.consumers().members["A"].assigned)) == 2 * TOPICS


def test_a_coordinator_that_has_loaded_very_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, producers wait when the first heartbeat after a start hashes 10,000 topics; or the group begins an
    epoch although nothing has changed, or does not notice a change of before.
    """
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    for token in ("assign", "move"):
        h.beats(token)
    epoch = h.consumers().epoch
    h.restart()
    h.hashed = h.hashed_max = 0
    for token in ("first", "second"):
        h.beats(token)
    assert (h.hashed, h.hashed_max, h.consumers().epoch) == (TOPICS, PER_TURN // 2, epoch)
    h.topics.put("t7", 3)
    h.restart()
    h.hashed = h.hashed_max = 0
    h.beats("hashes")
    assert h.consumers(GROUP).epoch == epoch
    h.beats("begins")
    assert (h.hashed, h.hashed_max, h.consumers().epoch) == (TOPICS, PER_TURN // 2, epoch + 1)


def kept_in_two_turns(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A group whose search has ended: the topics are kept, and the epoch has not begun."""
    monkeypatch.setattr(regex, "TOPICS_PER_TURN", TOPICS - 1)
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    for _ in range(TURNS_MAX):
        if h.consumers().resolved:
            break
        h.work()
    assert (len(h.consumers().resolved[".*"].topics), h.consumers().metadata_hash) == (TOPICS, NO_TOPICS_HASH)
    return h


def test_the_epoch_after_a_search_has_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the records of 10,000 topics and the epoch that follows hold producers up together."""
    h = kept_in_two_turns(monkeypatch)
    epoch = h.consumers().epoch
    h.work()
    assert (h.consumers().epoch, h.consumers().metadata_hash, h.works) == (epoch + 1, h.hash_now, [])
    for token in ("assign", "move"):
        h.beats(token)
    assert len(h.consumers().members["A"].assigned) == TOPICS


def test_a_coordinator_that_stops_before_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member reads nothing when its coordinator dies just after the search."""
    h = kept_in_two_turns(monkeypatch)
    epoch = h.consumers().epoch
    h.restart()
    for token in ("hashes", "begins", "move"):
        h.beats(token)
    assert (h.consumers().epoch, h.consumers().metadata_hash) == (epoch + 1, h.hash_now)
    assert len(h.consumers().members["A"].assigned) == TOPICS


def test_expressions_that_exchange_their_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, members keep the topics of earlier expressions when their coordinator dies just after a search,
    since the metadata hash of the group is the same.
    """
    h = kept_in_two_turns(monkeypatch)
    h.works_end()
    consumers = h.consumers()
    epoch, works = consumers.epoch, len(h.works)
    names = consumers.resolved[".*"].topics
    exchanged = {
        each: regex.Matched(topics, records.regex_record(GROUP, each, ResolvedRegex(topics, 1, h.wall_ms)))
        for each, topics in ((".*", frozenset[str]()), ("other", names))
    }
    consumers.regex_members["other"] = 1
    h.run(regex.found, GROUP, consumers.number, regex.Found(exchanged, sorted(names)))
    assert (h.consumers().epoch, len(h.works)) == (epoch + 1, works)


def test_a_group_that_is_deleted_before_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the rest of a search begins an epoch of another group with the same id."""
    h = kept_in_two_turns(monkeypatch)
    number = h.consumers().number
    h.run(regex.kept, GROUP, number + 1, True)
    assert h.consumers().metadata_hash == NO_TOPICS_HASH
    h.run(regex.kept, "unknown", number, True)
    assert "unknown" not in h.machine.groups


# ---- the assignment ----


def test_the_topics_of_an_assignment_are_looked_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the heartbeat that begins the assignment of 10,000 topics holds producers up."""
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", PER_TURN)
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    asked: list[int] = []
    right = TopicsImage.named

    def named(self: TopicsImage, names: Collection[str]) -> list[TopicImage]:
        asked.append(len(names))
        return right(self, names)

    monkeypatch.setattr(TopicsImage, "named", named)
    h.beats("assign")
    assert asked == [PER_TURN] * (TOPICS // PER_TURN)
    h.beats("move")
    assert len(h.consumers().members["A"].assigned) == TOPICS


def test_an_assignment_that_ends_while_topics_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a group that was deleted meanwhile stops the coordinator, or its result goes to another group."""
    monkeypatch.setattr(assigning, "TOPICS_PER_TURN", PER_TURN)
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    h.beat("assign", "A", h.consumers().members["A"].epoch, owned={})
    (work,) = h.works
    assert assigning.is_under_way(h.machine, h.consumers())
    names = work.function(*work.arguments)
    group_id, number, *about = work.about
    for other in ((group_id, number + 1), ("unknown", number)):
        h.run(work.then, *other, *about, names)
        assert h.works == [work]
    h.works_end()
    assert len(h.consumers().target["A"]) == TOPICS


def test_a_member_moves_without_reading_its_own_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a member that gets 1,000 topics holds producers up twice as long; or a restart knows others."""
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    h.beats("assign")
    decoded: list[type[Any]] = []
    right = codec.decode_versioned

    def decode(kind: type[Any], value: bytes) -> Any:
        decoded.append(kind)
        return right(kind, value)

    monkeypatch.setattr(codec, "decode_versioned", decode)
    h.beats("move")
    assert len(h.consumers().members["A"].assigned) == TOPICS
    assert records.CurrentValue not in decoded
    monkeypatch.undo()
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_what_a_member_keeps_is_not_held_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one new topic costs a member with 10,000 others as much as 10,000 new ones."""
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    for token in ("assign", "move"):
        h.beats(token)
    before = h.consumers().members["A"].assigned
    h.change(h.topics.put("new", 1))
    h.advance(regex.REFRESH_MIN_MS + 1)
    held: list[UUID] = []
    right = topic_values.own

    def own(owners: Any, member_id: str, new: Iterable[tuple[UUID, Any]]) -> int:
        found = dict(new)
        held.extend(found)
        return right(owners, member_id, found.items())

    monkeypatch.setattr(consumer_group, "own", own)
    for token in ("search", "assign it", "move to it"):
        h.beats(token)
    after = h.consumers().members["A"].assigned
    assert len(after) == TOPICS + 1
    assert all(after[each] is partitions for each, partitions in before.items())
    assert len(held) == 1
    assert h.consumers().held_total == TOPICS + 1


@pytest.mark.parametrize(("assignor", "hashed_max"), [("uniform", 3), ("range", 6)])
def test_a_member_that_gains_very_many_topics_looks_each_up_a_few_times(
    monkeypatch: pytest.MonkeyPatch, assignor: str, hashed_max: int
) -> None:
    """If this fails, the heartbeat of a member that gains 1,000 topics, its own or each with other members, holds
    producers up for more than 5 ms: the hashes of their ids take most of its time.
    """
    # As with 1,000 topics, the moves of the rebalance are ordered in the background.
    monkeypatch.setattr(journal, "MOVES_PER_TURN", 0)
    topics = Topics(**{f"t{number}": 2 for number in range(TOPICS)})
    h = ConsumerHarness(topics, consumer=ConsumerGroupSettings(assignment_interval_ms=0, assigned_at_once_max=0))
    for member_id in "AB":
        h.beat(f"{member_id} joins", member_id, 0, regex=".*", assignor=assignor, owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    h.beat("assign", "A", h.consumers().members["A"].epoch, owned={})
    h.works_end()
    gains = {member_id: len(h.consumers().target[member_id]) for member_id in "AB"}
    assert not h.consumers().owners
    assert sum(gains.values()) == (TOPICS if assignor == "uniform" else 2 * TOPICS)
    hashed: list[UUID] = []

    def counted(topic_id: UUID) -> int:
        hashed.append(topic_id)
        return hash(topic_id.int)

    monkeypatch.setattr(UUID, "__hash__", counted)
    for member_id in "AB":
        hashed.clear()
        h.beat(f"{member_id} gains", member_id, h.consumers().members[member_id].epoch, owned={})
        assert len(h.consumers().members[member_id].assigned) == gains[member_id]
        assert len(hashed) <= hashed_max * gains[member_id]


# ---- expressions ----


def test_the_difference_of_two_searches_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each new topic costs a group that matches everything as much as 10,000 topics."""
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    counted: list[str] = []

    class Counts(dict[str, int]):
        def update(self, topics: Mapping[str, int]) -> None:  # type: ignore[override]
            counted.extend(topics)
            super().update(topics)

    def count(counts: dict[str, int], topics: Iterable[str], change: int) -> None:
        for topic in topics:
            counted.append(topic)
            counts[topic] = counts.get(topic, 0) + change

    monkeypatch.setattr(consumer_group, "count", count)
    monkeypatch.setattr(h.consumers(), "by_regex", Counts(h.consumers().by_regex))
    h.change(h.topics.put("new", 1))
    h.advance(regex.REFRESH_MIN_MS + 1)
    h.beats("search")
    assert counted == ["new"]
    assert h.consumers().by_regex == dict.fromkeys(h.topics.image.topics.names(), 1)


def test_the_metadata_hash_is_kept_until_topics_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, 50 members whose sessions end together sort 10,000 topics 50 times; or a change is overlooked."""
    h = Counting(monkeypatch)
    hashed: list[int] = []
    right = metadata_hash.group_hash

    def group_hash(hashes: Mapping[str, int]) -> int:
        hashed.append(len(hashes))
        return right(hashes)

    monkeypatch.setattr("broker_cy.coordinator.modern.group.group_hash", group_hash)
    for member_id in "ABC":
        h.beat(f"{member_id} joins", member_id, 0, regex=".*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    h.beats("assign")
    hashed.clear()
    epoch = h.consumers().epoch
    h.beat("B leaves", "B", -1)
    h.beat("C leaves", "C", -1)
    assert (h.consumers().epoch, hashed) == (epoch + 2, [])
    h.change(h.topics.put("t7", 3))
    h.beats("after")
    assert (h.consumers().epoch, hashed) == (epoch + 3, [TOPICS])
    assert h.consumers().metadata_hash == h.hash_now


def test_a_group_is_marked_without_an_index_of_the_topics_that_it_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a search that matches 10,000 topics fills an index with all of them in one turn; or a group does
    not consume new partitions of a topic that its expression matches.
    """
    h = Counting(monkeypatch)
    h.beat("join", "A", 0, regex="t.*", owned={}, rebalance_ms=REBALANCE_MS)
    h.works_end()
    assert not any(h.machine.subscribers.of(name) for name in h.topics.image.topics.names())

    def is_marked(*names: str) -> bool:
        h.consumers().refreshed(h.mono_ms)
        for name in names:
            h.topics.put(name, 5)
        h.take(h.machine.metadata_changed(_delta(h.topics, names), h.topics.image))
        return h.consumers().is_refresh_due(h.mono_ms)

    assert is_marked("t7")
    assert not is_marked("other")
    assert is_marked("other", "t8")
    # A very large change marks all of these groups.
    monkeypatch.setattr(group_machine, "CHANGED_LOOKS_MAX", 2)
    assert not is_marked("other", "another")
    assert is_marked("other", "another", "third")
    h.beat("leave", "A", -1)
    assert not h.machine.subscribers.wide


def _delta(topics: Topics, names: Iterable[str]) -> ImageDelta:
    after = (topics.image.topics.by_name(name) for name in names)
    return ImageDelta([TopicDelta(each, each) for each in after if each is not None], [], [], [])
