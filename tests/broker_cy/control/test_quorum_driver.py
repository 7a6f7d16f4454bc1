"""The start of the controller waits for a leader of the metadata quorum."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.control.quorum import quorum_opening
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import Event, LeaderGone, Output, Stop
from broker_cy.quorum.voters import Voter, VoterSet
from tests.broker_cy.handlers.metadata_broker import LISTENERS, MetadataBroker, run, until


class OneOfThree(Quorum):
    """A voter whose messages are lost."""

    def __init__(self, me: Voter, history: VoterHistory, *more: Any, **options: Any) -> None:
        super().__init__(me, VoterHistory(VoterSet.of_ids((me.key.id, 7, 8))), *more, **options)

    def step(self, event: Event, now_ms: int) -> Output:
        super().step(event, now_ms)
        state = self._state
        return Output(self.role, state.epoch, state.leader_id, state.high_watermark)


def test_start_without_a_leader_ends_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker whose quorum has no majority would hang at its start without a word."""
    monkeypatch.setattr(quorum_opening, "Quorum", OneOfThree)

    async def work() -> None:
        broker = MetadataBroker(tmp_path)
        # Kafka's minimum is a second.
        broker.config._values["initial.broker.registration.timeout.ms"] = 50
        with pytest.raises(RegistrationRefused, match="no active controller was found: a majority of the controllers"):
            await broker.__aenter__()

    run(work)


def test_start_goes_on_when_there_is_a_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the start blocks the loop that receives the votes it waits for."""

    class Late(Quorum):
        """Its first event does nothing yet."""

        first: Event | None = None

        def step(self, event: Event, now_ms: int) -> Output:
            if Late.first is None:
                Late.first = event
                return Output(self.role, self.epoch, self.leader_id, 0)
            return super().step(event, now_ms)

    monkeypatch.setattr(quorum_opening, "Quorum", Late)

    async def work() -> None:
        broker = MetadataBroker(tmp_path).open()
        start = asyncio.ensure_future(broker.controller.start(LISTENERS))
        await until(lambda: Late.first is not None)
        assert not start.done()
        assert Late.first is not None
        broker.controller._driver.step(Late.first)
        await start
        assert broker.controller.epoch == 1
        await broker.controller.stop()
        broker.close()

    run(work)


def test_a_quorum_that_is_not_consistent_says_how_that_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a disk that was replaced and formatted with --standalone ends in a message without a remedy."""

    class Contradicted(Quorum):
        is_told = False

        def step(self, event: Event, now_ms: int) -> Output:
            if Contradicted.is_told and not isinstance(event, Stop):
                raise AssertionError("epoch 1 has the leaders 3 and 1")
            return super().step(event, now_ms)

    monkeypatch.setattr(quorum_opening, "Quorum", Contradicted)

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            Contradicted.is_told = True
            broker.controller._driver.take(LeaderGone(7, 1))

    run(work)
    (line,) = [each for each in caplog.records if each.message == "this node leaves the metadata quorum"]
    assert "epoch 1 has the leaders 3 and 1" in str(vars(line))
    assert "format those of a node that joins others with --no-initial-controllers" in str(vars(line))
