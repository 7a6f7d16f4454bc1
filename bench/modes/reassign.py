"""`reassign`: partitions of a filled topic move to other nodes, while producers follow a schedule on another topic.

Each partition has one replica, which moves to the next node, so that all bytes are copied once and every node sends and
receives. The rate is that from the request until no partition is being moved. It is compared with one copy of the same
bytes through the loopback interface (bench.copy_limit), and the producers' p99 with that of the same producers alone.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from bench import protocol
from bench.cluster_requests import is_reassigning, metadata, reassign
from bench.cluster_target import Cluster
from bench.copy_limit import copy_mb_per_s
from bench.engine import FAILURES, Measured, Session, Stopped, fill, measure
from bench.modes.base import Outcome, up
from bench.spec.target import TargetSpec
from bench.spec.toml_file import SpecError
from bench.spec.workload import Workload
from bench.targets import TargetError
from bench.warm import warm

TOPIC = "bench-moved"
SIZE_BYTES = 3 * 10**9
PARTITIONS = 12
# One replica: acks=all must not wait for others.
SETTINGS = {"min.insync.replicas": "1"}
SEEN_S = 30.0
# Memory is warmed for a window before it begins, so it must not be as long as the longest move.
BESIDE_MOST_S = 30.0
MOVE_MOST_S = 600.0
LOOK_S = 0.05
LIMIT_BYTES = 1 << 30  # copied for the limit, or less if less is moved
MB = 1e6
ALONE, BESIDE, MOVE = "producers alone", "producers beside the move", "the move"


def reassignments(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, size: int, pairs: int
) -> None:
    """Measure each cluster in turn, A B B A ..., one at a time. Raises SpecError, TargetError."""
    if others := [spec.name for spec in specs if spec.nodes == 1]:
        allowed = "ours-3, kafka-3, and files with `nodes`"
        raise SpecError(f"target {others[0]} is no cluster of the tool's own (allowed: {allowed})")
    if workload.rate.unlimited or not workload.producers or workload.consumers or workload.driver != "raw":
        raise SpecError(
            f"workload {workload.name}: reassign needs producers of the driver raw alone, on a schedule "
            "(such as latency-1kb)"
        )
    for pair in range(pairs):
        for spec in list(specs)[:: -1 if pair % 2 else 1]:
            if session.stop.is_set() or outcome.failed:
                return
            with up(session, [spec], outcome) as targets:
                cluster = targets[spec.name]
                assert isinstance(cluster, Cluster)
                outcome.runs += _measured(session, cluster, workload, outcome, size, pair)


def _measured(
    session: Session, cluster: Cluster, workload: Workload, outcome: Outcome, size: int, pair: int
) -> list[Measured]:
    """Return the producers alone, the producers beside the move, and the move."""
    name = cluster.name
    move = Measured.begin(name, MOVE, pair)
    runs: list[Measured] = []
    try:
        _create(cluster)
        fill(session, cluster, TOPIC, replace(workload, partitions=PARTITIONS, batch_bytes=1 << 20), size)
        warming, failed = warm(session, name, cluster, workload)
        if warming is not None:
            outcome.warm_ups.append(warming)
        if failed:
            raise TargetError(failed)
        runs.append(measure(session, name, cluster, workload, ALONE, pair))
        if not runs[-1].failed:
            runs.append(_beside(session, cluster, workload, move, size))
        move.empty = "move_s" not in move.extra
        _compare(runs)
        if not move.empty:
            session.on_phase(f"{name}: limit")
            limit = copy_mb_per_s(cluster.directory, min(size, LIMIT_BYTES))
            move.extra |= {"limit_mb_per_s": limit, "share_of_limit": move.extra["move_mb_per_s"] / limit}
    except Stopped:
        move.empty = True
    except FAILURES as error:
        move.failed = f"{type(error).__name__}: {error}"
    session.on_window()
    return [*runs, move]


def _compare(runs: Sequence[Measured]) -> None:
    """Add the p99 beside the move as a ratio to that of the same producers alone."""
    if len(runs) == 2 and not any(run.failed or run.empty for run in runs):
        alone, beside = (run.result.latency.percentile(99) for run in runs)
        runs[1].extra["p99_to_alone"] = beside / alone


def _create(cluster: Cluster) -> None:
    with protocol.Client(cluster.address) as client:
        client.create_topic(TOPIC, PARTITIONS, SETTINGS)
    cluster.wait(lambda: cluster.is_in_sync(TOPIC, PARTITIONS), f"leaders of {TOPIC}")


def _beside(session: Session, cluster: Cluster, workload: Workload, move: Measured, size: int) -> Measured:
    """Move the partitions in the window of the producers, which ends with the move or after BESIDE_MOST_S."""
    stop = Event()
    moves: list[Future[float]] = []

    @contextlib.contextmanager
    def moving(*pids: int) -> Iterator[None]:
        moves.append(pool.submit(_move, session, cluster, stop))
        yield

    with ThreadPoolExecutor(1) as pool:
        beside = replace(session, stop=stop, observe=moving)
        lasting = replace(workload, duration_s=max(workload.duration_s, BESIDE_MOST_S))
        run = measure(beside, cluster.name, cluster, lasting, BESIDE, move.pair)
    session.go_on()
    if moves:
        seconds = moves[0].result()
        move.extra |= {"moved_gb": size / 1e9, "move_s": seconds, "move_mb_per_s": size / MB / seconds}
    return run


def _move(session: Session, cluster: Cluster, stop: Event) -> float:
    """Move each partition to the next node and wait for the end; returns how long that took, and sets `stop`."""
    session.on_phase(f"{cluster.name}: moving partitions")
    try:
        with protocol.Client(cluster.address) as client:
            before = metadata(client, TOPIC).partitions
            wanted = {number: [cluster.next_to(each.replicas[0])] for number, each in before.items()}
            begun = time.monotonic()
            reassign(client, TOPIC, wanted)
            while is_reassigning(client):
                session.go_on()
                if time.monotonic() - begun > MOVE_MOST_S:
                    raise TargetError(f"{cluster.name}: partitions were still being moved after {MOVE_MOST_S:g} s")
                time.sleep(LOOK_S)
            seconds = time.monotonic() - begun

        # The node that is asked may learn of the end a little after the controller has said it.
        def is_moved() -> bool:
            found = cluster.seen(0, TOPIC).partitions
            return all(list(found[number].replicas) == nodes for number, nodes in wanted.items())

        cluster.wait(is_moved, f"replicas of {TOPIC} on other nodes", SEEN_S)
        return seconds
    finally:
        stop.set()
