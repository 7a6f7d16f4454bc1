"""A streams group whose topology reads very many topics: what one turn of the loop does for it."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.modern import epochs
from broker_cy.coordinator.streams import configure, heartbeat, replay
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import durable
from tests.broker_cy.coordinator.streams_harness import Part, StreamsHarness, topology

NAMES = [f"t{number}" for number in range(20)]
PARTITIONS = 2
TOPOLOGY = topology(Part(NAMES))


class Counting(StreamsHarness):
    """The hashes of topics are computed in later turns. `configured` counts the looks at all topics."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.configured = 0
        right = configure.configure

        def counted(*args: Any) -> Any:
            self.configured += 1
            return right(*args)

        patch.setattr(heartbeat, "configure", counted)
        patch.setattr(epochs, "HASHED_PER_TURN", len(NAMES))
        super().__init__(Topics(**dict.fromkeys(NAMES, PARTITIONS)))


def test_a_topology_is_compared_with_the_topics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the second heartbeat of an application that reads 10,000 topics holds producers up, too."""
    h = Counting(monkeypatch)
    h.enter("join", "A", TOPOLOGY)
    assert (h.streams().metadata_hash, h.configured) == (0, 1)
    h.works_end()
    h.beat("compare", "A", 2)
    assert h.streams().metadata_hash != 0
    found = h.streams().configured
    assert found is not None
    assert (found.metadata_hash, h.configured) == (h.streams().metadata_hash, 1)
    h.change(h.topics.put("t7", PARTITIONS + 1))
    h.beat("grows", "A", 3)
    assert h.configured == 2


def test_a_topic_that_grows_before_the_hashes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, no task reads the new partitions of a topic."""
    h = Counting(monkeypatch)
    h.enter("join", "A", TOPOLOGY)
    h.change(h.topics.put("t7", PARTITIONS + 1))
    h.works_end()
    h.beat("compare", "A", 2)
    h.works_end()
    h.beat("assign", "A", h.streams().members["A"].epoch)
    assert h.configured == 2
    assert h.streams().target["A"].active == {"0": frozenset(range(PARTITIONS + 1))}


def test_a_topology_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the heartbeat with a topology of 10,000 topics reads the record that it has just made."""
    h = Counting(monkeypatch)
    monkeypatch.setattr(replay, "of_value", None)
    h.enter("join", "A", TOPOLOGY)
    monkeypatch.undo()
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before
    assert h.machine.subscribers.of("t7")
