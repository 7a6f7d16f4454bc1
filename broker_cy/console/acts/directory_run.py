"""Carries out moves between directories, and reports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_cy.admin import AdminClient
from broker_cy.admin.directory_plan import DirectoryMove
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.client.errors import ClientError
from broker_cy.console.acts.pace import Pace
from broker_cy.console.acts.plan import Failed, Report
from broker_cy.reporting.numbers import plural, size


async def run_directory_moves(
    client: AdminClient, moves: Sequence[DirectoryMove], pace: Pace, progress: Callable[[MoveProgress], None]
) -> Report:
    """Move replicas, and return when all have moved or failed. Raises CancelledError as DirectoryMover."""
    run = client.directory_mover.of(moves, concurrent=pace.concurrent, throttle_bytes_per_s=pace.throttle_bytes_per_s)
    failed: list[Failed] = []
    try:
        await run.run(progress)
    except ClientError as error:
        failed.append(Failed(f"{plural(len(run.untouched), 'replica')} that did not move", error))
    failed += [Failed(str(key), error) for key, error in run.failed.items()]
    failed += [Failed(f"left behind: {error.what}", error) for error in run.left_behind]
    said = f"moved {plural(len(run.done), 'replica')}, {size(sum(move.size_bytes for move in run.done))}"
    return Report(said, tuple(str(move.replica) for move in run.done), tuple(failed))
