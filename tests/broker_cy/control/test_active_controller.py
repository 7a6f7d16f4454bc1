"""The active controller at the beginning and at the end of its leadership."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_cy.control.active.active_controller import ActiveController
from broker_cy.control.active.leadership import Leadership
from broker_cy.control.image import committed_metadata
from broker_cy.control.image.committed_metadata import CommittedMetadata
from broker_cy.controller.activation import default_bootstrap
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import framing
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import VersionedRecord
from broker_cy.quorum import entries, wire_log
from broker_cy.quorum.entries import Batch, KRaftVersion
from broker_cy.quorum.step import Output, Role
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import Cluster
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run

EPOCH = 3


class Driver:
    """A quorum whose epoch begins with one control record, and the content of its log."""

    def __init__(self) -> None:
        self.quorum = SimpleNamespace(epoch=EPOCH, end_offset=1)
        self.appended_bytes = 0
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

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
        waiting = active.submit(Cluster().registration(1))
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


def test_a_node_that_cannot_read_committed_metadata_ends(tmp_path: Path) -> None:
    """If this fails, a broker serves outdated metadata until it is restarted."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            controller = broker.controller
            files: Any = Files()
            files.content = b"\0" * 64
            loop = asyncio.get_running_loop()
            committed = CommittedMetadata(Loader(), files, loop, [], lambda *_: None, controller._driver.halt)
            committed.advance(1)
            assert "records from offset 0 on" in controller.halted.result()
            assert controller._driver.quorum.role is Role.CLOSED
            with pytest.raises(KafkaError, match="records from offset 0 on"):
                controller.submit(Question())
            assert not controller.is_active

    run(work)


class Question(Operation[str]):
    """Changes nothing, as most heartbeats."""

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> str:
        return "answered"


class Batches:
    """A log of batches by offset."""

    directory = "log"

    def __init__(self) -> None:
        self.batches: dict[int, bytes] = {}

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        content = b""
        for base, batch in self.batches.items():
            if offset <= base < end_offset and (not content or len(content) + len(batch) <= max_bytes):
                content += batch
        return content


@pytest.mark.parametrize("replay_bytes", [1, 1 << 20])
def test_a_leader_answers_when_its_epoch_and_what_was_before_it_are_committed_together(
    replay_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, heartbeats, and all later requests on the same connections, wait for the next metadata change.
    This happens if the former leader's last record was not known to be committed when this node was elected.
    """
    monkeypatch.setattr(committed_metadata, "REPLAY_BYTES", replay_bytes)

    async def work() -> None:
        loop, files, driver = asyncio.get_running_loop(), Batches(), Driver()
        damage: list[str] = []
        config = MetadataBroker(Path("/nowhere")).config
        leading = Leadership(config, ManualClock(), loop, MACHINE_RANDOMNESS, files, lambda _: None)  # type: ignore[arg-type]
        committed = CommittedMetadata(Loader(), files, loop, [], lambda *_: leading.activate(), damage.append)  # type: ignore[arg-type]
        watch: Any = SimpleNamespace(dead={}, silent={}, cut={}, refused={})
        leading.open(driver, committed, watch, [])  # type: ignore[arg-type]
        leading.stopped_reason = None

        first = default_bootstrap()
        known, tail = len(first), len(first) + 1
        files.batches[0] = framing.data_batch(first, 0, EPOCH - 1, 0)
        files.batches[known] = framing.data_batch([VersionedRecord(messages.NoOpRecord())], known, EPOCH - 1, 0)
        leading.changed(Output(Role.FOLLOWER, EPOCH - 1, 2, known))
        assert committed.end_offset == known

        begin = Batch(tail, tail + 1, EPOCH, None, (entries.Leadership(1, (), ()),))
        files.batches[tail] = wire_log.encoded(begin, 0)
        driver.quorum.end_offset = tail + 1
        leading.changed(Output(Role.LEADER, EPOCH, 1, known, append=(begin,)))
        assert not leading.can_submit
        leading.changed(Output(Role.LEADER, EPOCH, 1, tail + 1))

        asked = leading.submit(Question())
        # The answer of an operation without records comes in the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked.done()
        assert await asked == "answered"
        assert not damage
        assert committed.end_offset == tail + 1

    run(work)


def test_an_activation_that_was_not_written_is_done_again() -> None:
    """If this fails, a disk that is full at the wrong moment leaves a new cluster without its features forever, or
    leaves records of an earlier leader's open transaction in front of all others.
    """

    async def work() -> None:
        loop, files, driver = asyncio.get_running_loop(), Files(), Driver()
        config = MetadataBroker(Path("/nowhere")).config
        committed = CommittedMetadata(Loader(), files, loop, [], lambda *_: None, [].append)  # type: ignore[arg-type]
        active = ActiveController(config, ManualClock(), MACHINE_RANDOMNESS, loop, driver, committed)  # type: ignore[arg-type]
        error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")
        activated = active.activate(default_bootstrap())
        for _ in range(2):
            asked = active.submit(Cluster().registration(1))
            driver.quorum.end_offset = 1
            active.not_written(error, 1)
            for each in (activated, asked):
                with pytest.raises(KafkaError, match="no space left"):
                    await each
        assert await _both(active, driver) == "answered"
        features = committed.image.features
        assert features.levels() == {each.message.name: each.message.feature_level for each in default_bootstrap()}
        offset = driver.quorum.end_offset
        await _both(active, driver)
        assert driver.quorum.end_offset == offset, "it was done once more"

    async def _both(active: ActiveController, driver: Driver) -> str:
        asked = active.submit(Question())
        active.commit(driver.quorum.end_offset)
        return await asked

    run(work)
