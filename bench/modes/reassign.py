"""`reassign`: partitions of a filled topic move to other nodes, while producers follow a schedule on another topic.

Each partition has one replica, which moves to the next node, so that all bytes are copied once and every node sends and
receives. The rate counts from the request until no partition is being moved. It is compared with one copy of the same
bytes through the loopback interface (bench.modes.copy_limit), and the producers' p99 with that of the same producers
alone.

With a link rate, each node is on its own host, and the partitions of the first node move to the others in turn, as
before a decommission: the rate is compared with that of its link.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from bench.launch import networks
from bench.modes.base import Outcome, cluster_up
from bench.modes.copy_limit import copy_mb_per_s
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import TargetError
from bench.targets.cluster import Cluster
from bench.window.engine import FAILURES, Measured, Session, Stopped, fill, measure
from bench.window.page_cache import provide
from bench.window.warm import warm
from bench.wire import protocol
from bench.wire.cluster_requests import Partition, is_reassigning, metadata, reassign
from broker_cy.client.toml_file import SpecError

TOPIC = "bench-moved"
SIZE_BYTES = 3 * 10**9
PARTITIONS = 12
# One replica: acks=all must not wait for others.
SETTINGS = {"min.insync.replicas": "1"}
SEEN_S = 30.0
# Memory is warmed for a window before it begins, so the window must not be as long as the longest move.
BESIDE_MOST_S = 30.0
MOVE_MOST_S = 600.0
LOOK_S = 0.05
LIMIT_BYTES = 1 << 30  # copied to measure the limit, or less if less is moved
MB = 1e6
ALONE, BESIDE, MOVE = "producers alone", "producers beside the move", "the move"


def reassignments(
    session: Session,
    specs: Sequence[TargetSpec],
    workload: Workload,
    outcome: Outcome,
    size: int,
    pairs: int,
    link_bits_per_s: int = 0,
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
    if link_bits_per_s and (sentence := networks.missing()) is not None:
        raise SpecError(f"--link: {sentence}")
    for pair in range(pairs):
        for spec in list(specs)[:: -1 if pair % 2 else 1]:
            if session.stop.is_set() or outcome.failed:
                return
            on_hosts = link_bits_per_s > 0
            with cluster_up(session, spec, outcome, on_hosts=on_hosts, link_bits_per_s=link_bits_per_s) as cluster:
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
        session.on_phase(f"{name}: memory")
        provide(cluster.directory, size)
        runs.append(measure(session, name, cluster, workload, ALONE, pair))
        if not runs[-1].failed:
            runs.append(_beside(session, cluster, workload, move, size))
        move.empty = "move_s" not in move.extra
        _compare(runs)
        if not move.empty:
            session.on_phase(f"{name}: limit")
            network = cluster.network
            if network is not None:
                limit = network.link_bits_per_s / 8 / MB
            else:
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
    moves: list[Future[tuple[float, float]]] = []

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
        seconds, share = moves[0].result()
        moved = size * share
        move.extra |= {"moved_gb": moved / 1e9, "move_s": seconds, "move_mb_per_s": moved / MB / seconds}
    return run


def _wanted(cluster: Cluster, before: Mapping[int, Partition]) -> dict[int, list[int]]:
    """Return the new replicas of the partitions that move."""
    if cluster.network is None:
        return {number: [cluster.next_to(each.replicas[0])] for number, each in before.items()}
    first = [number for number, each in sorted(before.items()) if cluster.number_of(each.replicas[0]) == 0]
    others = itertools.cycle(broker for number in range(1, len(cluster.nodes)) for broker in cluster.broker_ids(number))
    return {number: [next(others)] for number in first}


def _move(session: Session, cluster: Cluster, stop: Event) -> tuple[float, float]:
    """Move partitions to other nodes and wait for the end; returns the time that it took, and the share of partitions
    that moved. Sets `stop`.
    """
    session.on_phase(f"{cluster.name}: moving partitions")
    try:
        with protocol.Client(cluster.address) as client:
            before = metadata(client, TOPIC).partitions
            wanted = _wanted(cluster, before)
            begun = time.monotonic()
            reassign(client, TOPIC, wanted)
            while is_reassigning(client):
                session.go_on()
                if time.monotonic() - begun > MOVE_MOST_S:
                    raise TargetError(f"{cluster.name}: partitions were still being moved after {MOVE_MOST_S:g} s")
                time.sleep(LOOK_S)
            seconds = time.monotonic() - begun

        # The queried node may learn of the end a little after the controller reported it.
        def is_moved() -> bool:
            found = cluster.seen(0, TOPIC).partitions
            return all(list(found[number].replicas) == nodes for number, nodes in wanted.items())

        cluster.wait(is_moved, f"replicas of {TOPIC} on other nodes", SEEN_S)
        return seconds, len(wanted) / len(before)
    finally:
        stop.set()
