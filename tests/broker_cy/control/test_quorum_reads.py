"""Reads of other metadata quorum nodes from this one: a worker reads from the disk, never the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.control.quorum.quorum_network import QuorumNetwork
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.quorum.messages import FetchSnapshotResponse, OffsetAndEpoch
from broker_cy.storage import disk
from broker_cy.storage.cold_lookup import look_up
from tests.broker_cy.server.metadata_broker import MetadataBroker, run, until

SNAPSHOT = SnapshotId(40, 3)
CONTENT = b"0123456789"


def network_of(broker: MetadataBroker, executor: ThreadPoolExecutor) -> QuorumNetwork:
    nobody = cast(Any, None)
    files = broker.controller._files
    loop = asyncio.get_running_loop()
    return QuorumNetwork(nobody, lambda node: None, nobody, loop, 1_000, files, ManualClock(), executor=executor)


def test_a_chunk_of_a_snapshot_is_read_by_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each controller that joins makes the active one read megabytes on its event loop."""
    threads: list[int] = []
    right = MetadataLog.read_snapshot

    def read(self: MetadataLog, *arguments: Any) -> tuple[int, bytes]:
        threads.append(threading.get_ident())
        return right(self, *arguments)

    monkeypatch.setattr(MetadataLog, "read_snapshot", read)

    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            async with MetadataBroker(tmp_path) as broker:
                network = network_of(broker, executor)
                broker.controller._files.write_snapshot(SNAPSHOT, [CONTENT])
                asked = FetchSnapshotResponse(3, 1, 1, OffsetAndEpoch(*SNAPSHOT), 2, 5)
                found = await network._with_content(asked)
                assert (found.error, found.size, found.content) == (ErrorCode.NONE, len(CONTENT), CONTENT[2:7])
                behind = await network._with_content(asked._replace(position=len(CONTENT)))
                assert behind.error is ErrorCode.POSITION_OUT_OF_RANGE
                gone = await network._with_content(asked._replace(snapshot_id=OffsetAndEpoch(41, 3)))
                assert gone.error is ErrorCode.SNAPSHOT_NOT_FOUND

    run(work)
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_records_that_are_not_in_memory_are_read_by_a_worker(tmp_path: Path) -> None:
    """If this fails, a follower of the metadata log that was away has the active controller wait for its disk."""

    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            async with MetadataBroker(tmp_path) as broker:
                network = network_of(broker, executor)
                whole = network._records_from(0)
                assert whole
                disk.set_read_refusals(2)
                try:
                    assert await look_up(network, network._records_from, 0) == whole
                finally:
                    disk.set_read_refusals(0)

    run(work)


def test_a_defect_in_an_answer_does_not_end_the_requests_to_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a node sends no vote or fetch to another one any more after a defect, and no log line says why."""
    answered: list[Any] = []
    caught: list[dict[str, Any]] = []

    async def exchange(self: QuorumNetwork, to: int, request: Any) -> Any:
        if request == "broken":
            raise RuntimeError("a defect")
        answered.append((to, request))

    monkeypatch.setattr(QuorumNetwork, "_exchange", exchange)

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: caught.append(context))
        with ThreadPoolExecutor(1) as executor:
            async with MetadataBroker(tmp_path) as broker:
                network = network_of(broker, executor)
                network.send(2, cast(Any, "broken"))
                await until(lambda: bool(caught))
                network.send(2, cast(Any, "sound"))
                await until(lambda: bool(answered))
                await network.close()

    run(work)
    assert answered == [(2, "sound")]
    assert [(context["message"], str(context["exception"])) for context in caught] == [
        ("str to controller 2 failed, and begins again in 0.1 s", "a defect")
    ]
