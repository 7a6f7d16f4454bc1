"""The directories that a list of moves names for its replicas (`log_dirs` of kafka-reassign-partitions).

A replica that does not exist yet is created where its broker was told beforehand (KIP-113); that is forgotten when the
broker stops. So, after the reassignments, the replicas that are elsewhere move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker_cy.admin import AdminClient
from broker_cy.admin.directory_mover import seen_in
from broker_cy.admin.directory_plan import DirectoryMove, directory_at
from broker_cy.admin.log_dirs import BrokerReplica
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.console.acts.directory_run import run_directory_moves
from broker_cy.console.acts.pace import Pace
from broker_cy.console.acts.plan import Change, Report
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.numbers import plural

Wanted = Sequence[tuple[BrokerReplica, str]]


async def misplaced(client: AdminClient, wanted: Wanted) -> list[Change]:
    """The replicas that are not in their directories: elsewhere, or not there yet. Raises ClientError for a directory
    that a broker does not have, or that is offline.
    """
    if not wanted:
        return []
    brokers = sorted({key.broker_id for key, _ in wanted})
    found = (await client.log_dirs.describe(brokers)).whole()
    for key, path in wanted:
        directory_at(found[key.broker_id], path)
    seen = seen_in(each for directories in found.values() for each in directories)
    places = {key: each.path for key, each in seen.items()}
    return [Change(str(key), places.get(key), path) for key, path in wanted if places.get(key) != path]


async def prefer_directories(client: AdminClient, wanted: Wanted) -> None:
    """Tell the brokers where to create the replicas that they do not have yet. Raises ClientError for a directory that
    cannot take them: nothing has moved then.
    """
    brokers = sorted({key.broker_id for key, _ in wanted})
    found = (await client.log_dirs.describe(brokers)).whole()
    seen = seen_in(each for directories in found.values() for each in directories)
    outcome = await client.log_dirs.alter({key: path for key, path in wanted if key not in seen})
    for error in outcome.failed.values():
        if error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            raise error


async def settle_directories(
    client: AdminClient, wanted: Wanted, pace: Pace, report: Report, progress: Callable[[MoveProgress], None]
) -> Report:
    """Move the replicas that are not in their directories after all; returns the report of both steps."""
    brokers = sorted({key.broker_id for key, _ in wanted})
    found = (await client.log_dirs.describe(brokers)).whole()
    seen = seen_in(each for directories in found.values() for each in directories)
    moves = [
        DirectoryMove(key, place, path, seen[key].size_bytes)
        for key, path in wanted
        if key in seen and (place := seen[key].path) is not None and place != path
    ]
    if not moves:
        return report
    moved = await run_directory_moves(client, moves, pace, progress)
    return replace(
        moved,
        said=f"{report.said}; {plural(len(moved.done), 'replica')} to another directory",
        done=(*report.done, *moved.done),
    )
