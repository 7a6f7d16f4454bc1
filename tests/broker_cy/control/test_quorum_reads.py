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
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import snapshot_response
from broker_cy.quorum.step import Send
from broker_cy.storage import disk
from broker_cy.storage.cold_lookup import look_up
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, until

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

                async def ask(end_offset: int, position: int) -> tuple[int, int, bytes | None]:
                    response = snapshot_response(3, 1, OffsetAndEpoch(end_offset, SNAPSHOT.epoch), position)
                    await network._add_content(response, 5)
                    part = response.topics[0].partitions[0]
                    return part.error_code, part.size, part.unaligned_records

                assert await ask(40, 2) == (ErrorCode.NONE, len(CONTENT), CONTENT[2:7])
                assert await ask(40, len(CONTENT)) == (ErrorCode.POSITION_OUT_OF_RANGE, 0, b"")
                assert await ask(41, 2) == (ErrorCode.SNAPSHOT_NOT_FOUND, 0, b"")

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


@pytest.mark.parametrize("kind", [messages.AddRaftVoterResponse, messages.RemoveRaftVoterResponse])
def test_the_reason_why_a_node_is_no_voter_yet_is_logged(tmp_path: Path, kind: type[Any]) -> None:
    """If this fails, the log does not show why a node that joins by itself does not become a voter."""
    reasons: list[str | None] = []

    async def work() -> None:
        with ThreadPoolExecutor(1) as executor:
            async with MetadataBroker(tmp_path) as broker:
                network = network_of(broker, executor)
                lagging, refused = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.VOTER_NOT_FOUND
                for response in (kind(error_code=lagging, error_message="it lags"), kind(error_code=refused), kind()):
                    network._accepted(1, response)
                    reasons.append(network._reported.get(1))

    run(work)
    prefix = "the leader does not make this node a voter yet"
    assert reasons == [f"{prefix}: it lags", f"{prefix}: VOTER_NOT_FOUND", None]


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
                network.send(Send(2, cast(Any, "broken")))
                await until(lambda: bool(caught))
                network.send(Send(2, cast(Any, "sound")))
                await until(lambda: bool(answered))
                await network.close()

    run(work)
    assert answered == [(2, "sound")]
    assert [(context["message"], str(context["exception"])) for context in caught] == [
        ("str to controller 2 failed, and begins again in 0.1 s", "a defect")
    ]
