"""Steps of both coordinators are values: two machines with the same past return equal ones, and print them."""

from __future__ import annotations

from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import GROUP, Harness
from tests.broker_cy.coordinator.txn_harness import P0, P1, TxnHarness


class Steps:
    """Keeps the steps of a harness."""

    def __init__(self, harness: Harness | TxnHarness) -> None:
        self.seen: list[CoordinatorStep] = []
        take = harness.take

        def keep(step: CoordinatorStep) -> CoordinatorStep | None:
            self.seen.append(step)
            return take(step)  # type: ignore[arg-type]

        vars(harness)["take"] = keep


def group_life() -> list[CoordinatorStep]:
    """Return the steps of a group that joins and syncs, of a commit that cannot be written, and of one that can."""
    harness = Harness()
    steps = Steps(harness)
    leader = harness.join_new("first")
    harness.sync("sync", leader, 1, {leader: b"all"})
    harness.hold = True
    harness.commit("lost", 5, group_id="other")
    harness.fail()
    harness.hold = False
    harness.commit("kept", 6, group_id="other")
    harness.leave("leave", (leader, None))
    return steps.seen


def transaction_life() -> list[CoordinatorStep]:
    """Return the steps of a transaction whose first record cannot be written, and which is then committed."""
    harness = TxnHarness()
    steps = Steps(harness)
    producer = harness.producer()
    harness.hold = True
    harness.add(producer, P0)
    harness.fail()
    harness.hold = False
    harness.add(producer, P0, P1)
    harness.end(producer, commit=True)
    return steps.seen


def test_the_same_past_gives_equal_steps() -> None:
    """If this fails, a step depends on something outside of the machine, and a seed cannot be replayed."""
    for life in (group_life, transaction_life):
        first, second = life(), life()
        assert first == second
        assert len(first) > 5


def test_a_step_is_printed_without_closures() -> None:
    """If this fails, a failed simulation prints addresses instead of the follow-ups of a step."""
    for life in (group_life, transaction_life):
        steps = life()
        assert any(step.follows for step in steps)
        assert any(step.before for step in steps)
        for step in steps:
            for each in (*step.before, *step.follows, *step.records):
                assert "lambda" not in repr(each)
                assert "<locals>" not in repr(each)


def test_a_failed_step_restores_the_state_of_before() -> None:
    """If this fails, `before` of a step is not the state that it replaced."""
    harness = Harness()
    harness.commit("first", 5)
    before = dict(harness.machine.offsets.topics(GROUP)["t"])
    next_offset = harness.machine.next_offset
    harness.hold = True
    harness.commit("second", 6)
    harness.commit("third", 7, partition=1)
    assert [len(step.before) for step in harness.held] == [1, 1]
    harness.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert harness.machine.offsets.topics(GROUP)["t"] == before
    assert harness.machine.next_offset == next_offset
