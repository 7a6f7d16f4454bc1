"""The state of the share partitions of very many topics, which takes turns of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.coordinator.settings import ShareGroupSettings
from broker_cy.coordinator.share import initialization
from tests.broker_cy.coordinator.consumer_harness import Topics
from tests.broker_cy.coordinator.harness import GROUP, durable
from tests.broker_cy.coordinator.share_harness import ShareHarness

MANY = 60


def test_the_state_of_very_many_topics_is_requested_in_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the first heartbeat of a member that names 1,000 topics holds producers up for more than 5 ms: the
    hashes of their ids take most of its time.
    """
    monkeypatch.setattr(initialization, "TOPICS_PER_HEARTBEAT", MANY - 1)
    names = [f"t{number}" for number in range(MANY)]
    h = ShareHarness(Topics(**dict.fromkeys(names, 2)), share=ShareGroupSettings(assigned_at_once_max=0))
    hashed: list[UUID] = []

    def counted(topic_id: UUID) -> int:
        hashed.append(topic_id)
        return hash(topic_id.int)

    monkeypatch.setattr(UUID, "__hash__", counted)
    h.enter("first", "A", *names)
    (work,) = [each for each in h.works if each.then is initialization.collected]
    assert (hashed, h.calls) == ([], [])
    h.run(work.then, *work.about, None)
    assert hashed == []
    work = h.works[-1]
    assert work.then is initialization.began
    found = work.function(*work.arguments)
    hashed.clear()
    h.run(work.then, *work.about, found)
    assert len(hashed) <= 7 * MANY
    assert len(h.initializing()) == 2 * MANY
    h.serve()
    (work,) = [each for each in h.works if each.then is initialization.note]
    noted = work.function(*work.arguments)
    hashed.clear()
    h.run(work.then, *work.about, noted)
    assert len(hashed) <= MANY
    assert len(h.initialized()) == 2 * MANY
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_a_search_of_very_many_topics_that_is_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, state of partitions without a reader is requested, or that of new ones never is."""
    monkeypatch.setattr(initialization, "TOPICS_PER_HEARTBEAT", 1)
    names = [f"t{number}" for number in range(MANY)]
    h = ShareHarness(Topics(**dict.fromkeys(names, 2)))
    h.enter("first", "A", *names[:5])
    h.work()
    h.enter("second", "B", *names[5:])
    assert [each.then for each in h.works] == [initialization.began]
    h.work()
    # The search begins again.
    assert (h.calls, h.initializing()) == ([], set())
    h.works_end()
    assert len(h.initializing()) == 2 * MANY
    h.change(h.topics.put("t0", 3))
    h.beat("beat", "A", h.sharers().members["A"].epoch)
    h.serve()
    h.works_end()
    h.beat("beat again", "A", h.sharers().members["A"].epoch)
    h.works_end()
    h.serve()
    h.works_end()
    assert len(h.initialized()) == 2 * MANY + 1
    assert not h.sharers().under_way


def test_results_about_very_many_topics_that_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the result of a request undoes that of another one: partitions stay without state for 30 s."""
    monkeypatch.setattr(initialization, "TOPICS_PER_HEARTBEAT", 1)
    monkeypatch.setattr(initialization, "ASKED_PER_CALL", 5)
    names = [f"t{number}" for number in range(MANY)]
    h = ShareHarness(Topics(**dict.fromkeys(names, 2)))
    h.enter("first", "A", *names)
    h.works_end()
    assert len(h.calls) > 2
    h.serve()
    assert len(h.works) > 2
    h.works_end()
    assert len(h.initialized()) == 2 * MANY
    assert not h.initializing()
    assert not h.sharers().under_way
    # A record that cannot be written is undone with what stood on it.
    h.change(h.topics.put("new", 1))
    h.beat("more", "A", h.sharers().members["A"].epoch, [*names, "new"])
    h.works_end()
    h.hold = True
    h.serve()
    h.works_end()
    h.fail()
    h.hold = False
    assert len(h.initialized()) == 2 * MANY
    h.advance(30_000)
    h.beat("again", "A", h.sharers().members["A"].epoch)
    h.works_end()
    h.serve()
    h.works_end()
    assert len(h.initialized()) == 2 * MANY + 1


def test_a_group_that_goes_before_the_turn_of_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, share partitions of a group that was deleted keep their state for ever."""
    monkeypatch.setattr(initialization, "TOPICS_PER_HEARTBEAT", 0)
    h = ShareHarness()
    h.enter("join", "A")
    number = h.sharers().number
    h.beat("leave", "A", -1)
    h.works_end()
    assert (h.calls, h.initializing()) == ([], set())
    h.delete_share_groups("delete", GROUP)
    for group_id, of in ((GROUP, number), ("unknown", number)):
        h.run(initialization.began, group_id, of, None)
    h.enter("join again", "A")
    h.run(initialization.began, GROUP, number, None)
    assert (h.calls, h.initializing()) == ([], set())
