"""A group that reads very many topics: the metadata hash of its topics is computed in parts."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.consumer import regex
from broker_cy.coordinator.modern import epochs, metadata_hash
from broker_cy.coordinator.modern.metadata_hash import NO_TOPICS_HASH
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.coordinator.step import GroupStep
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP

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

    def works_end(self) -> None:
        for _ in range(TURNS_MAX):
            if not self.works:
                return
            self.work()
        raise AssertionError("the work in the background does not end")

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
    group = h.consumers()
    epoch, works = group.epoch, len(h.works)
    halves: dict[str, frozenset[str]] = {".*": frozenset(), "other": group.resolved[".*"].topics}
    group.regex_members["other"] = 1
    h.run(regex.found, GROUP, group.number, 1, h.wall_ms, halves)
    assert (h.consumers().epoch, len(h.works)) == (epoch + 1, works)


def test_a_group_that_is_deleted_before_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the rest of a search begins an epoch of another group with the same id."""
    h = kept_in_two_turns(monkeypatch)
    number = h.consumers().number
    h.run(regex.kept, GROUP, number + 1, True)
    assert h.consumers().metadata_hash == NO_TOPICS_HASH
    h.run(regex.kept, "unknown", number, True)
    assert "unknown" not in h.machine.groups
