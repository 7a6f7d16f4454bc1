"""The active controller at the end of its leadership."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker_cy.controller.activation import default_bootstrap
from broker_cy.controller.broker_ops import StartBroker
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata.loader import Loader
from broker_cy.quorum import wire_log
from broker_cy.quorum.messages import Batch, KRaftVersion
from broker_cy.server.metadata.active_controller import ActiveController
from broker_cy.server.metadata.committed_metadata import CommittedMetadata
from tests.broker_cy.server.metadata_broker import LISTENERS, MetadataBroker, run

EPOCH = 3


class Driver:
    """A quorum whose epoch begins with one control record, and what its log has."""

    def __init__(self) -> None:
        self.quorum = SimpleNamespace(epoch=EPOCH, end_offset=1)
        self.appended_bytes = 0

    def step(self, event: Any) -> None:
        self.quorum.end_offset += sum(proposal.entries for proposal in event.proposals)


class Files:
    """The log behind what the controller has applied itself: a change of the voters."""

    directory = "log"

    def __init__(self) -> None:
        self.content = b""

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        return self.content


def test_leadership_ends_behind_a_control_record() -> None:
    """If this fails, a node ends when it leads no longer and the last committed entry is a change of the voters, as it
    is when the leader has removed itself (KAFKA-17608).
    """

    async def work() -> None:
        loop, files, driver = asyncio.get_running_loop(), Files(), Driver()
        damage: list[str] = []
        config = MetadataBroker(Path("/nowhere")).config
        committed = CommittedMetadata(Loader(), files, loop, [], lambda *_: None, damage.append)  # type: ignore[arg-type]
        active = ActiveController(config, ManualClock(), MACHINE_RANDOMNESS, loop, driver, committed)  # type: ignore[arg-type]
        active.activate(default_bootstrap())
        control = driver.quorum.end_offset
        active.commit(control)
        files.content = wire_log.encoded(Batch(control, control + 1, EPOCH, None, (KRaftVersion(1),)), 0)
        driver.quorum.end_offset += 1
        waiting = active.submit(StartBroker(1, UUID(int=1), LISTENERS, (UUID(int=2),), None))
        active.commit(control + 1)
        active.end("it has removed itself")
        with pytest.raises(KafkaError, match="removed itself") as error:
            await waiting
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        committed.advance(control + 1)
        assert not damage
        assert committed.end_offset == control + 1
        assert not committed.image.brokers

    run(work)
