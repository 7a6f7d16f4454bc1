"""The figures that start and stop their own target: start, memory, idle connections, kill -9.

Each function takes a target that is not running, and leaves it stopped with its data removed.
"""

import shutil
import time
from collections.abc import Callable

from bench import offsets, proc, protocol
from bench.raw import Driver, LoadError
from bench.targets import Target, TargetError
from bench.window import Metrics
from bench.workloads import MIB, NO_TIME_LIMIT_S, PARTITIONS, Scale, produce_plan, read_back

SETTLE_S = 2.0  # after a start, until its own work is over; resident memory is a state, not a race
MB = 1e6


def start(target: Target, scale: Scale) -> Metrics:
    """Spawn on a new data directory until ApiVersions is answered."""
    with target.running():
        return {"first_answer_s": target.first_answer_s, "cpu_s": proc.usage(target.pid).cpu_s}


def idle(target: Target, scale: Scale) -> Metrics:
    """Resident memory that connections cost which asked for ApiVersions once and then keep silent."""
    with target.running():
        _connections(target, 50)  # what the first connections allocate for good is not theirs
        before = proc.resident_bytes(target.pid)
        clients: list[protocol.Client] = []
        try:
            for _ in range(scale.idle_connections):
                clients.append(protocol.Client(target.address))
                clients[-1].api_versions()
            grown = proc.resident_bytes(target.pid) - before
        finally:
            for client in clients:
                client.close()
        return {"kb_each": grown / scale.idle_connections / 1024, "connections": scale.idle_connections}


def _connections(target: Target, count: int) -> None:
    for _ in range(count):
        with protocol.Client(target.address) as client:
            client.api_versions()


def through(target: Target, scale: Scale) -> Metrics:
    """Resident memory idle and after `scale.through_bytes` went in and out; then kill -9, and a start without loss."""
    need = scale.through_bytes * 1.2 + 1e9
    if (free := shutil.disk_usage(target.directory.parent).free) < need:
        raise TargetError(f"{need / 1e9:.1f} GB must be free in {target.directory.parent}, there are {free / 1e9:.1f}")
    topic = "bench-through"
    with target.running():
        time.sleep(SETTLE_S)
        metrics = {
            "idle_mb": proc.resident_bytes(target.pid) / MB,
            "idle_private_mb": proc.private_bytes(target.pid) / MB,
        }
        target.create_topic(topic, PARTITIONS)
        plan = produce_plan(topic, 1024, MIB, 2)
        driver = Driver(target.address, plan)
        try:
            driver.run_closed(depth=5, requests=scale.through_bytes // plan[0][0].batch_bytes, seconds=NO_TIME_LIMIT_S)
            acknowledged = driver.next_offsets(PARTITIONS)
        finally:
            driver.close()
        read_back(target, topic, acknowledged, plan[0][0])
        metrics["through_mb"] = proc.resident_bytes(target.pid) / MB
        metrics["through_private_mb"] = proc.private_bytes(target.pid) / MB
        target.kill()
        begun = time.monotonic()
        target.start()
        metrics["first_answer_s"] = target.first_answer_s
        first = target.probe(topic, PARTITIONS)
        metrics["first_write_s"] = time.monotonic() - begun
        if lost := {p: (end, first[p]) for p, end in acknowledged.items() if first[p] < end}:
            raise LoadError(f"{target.name} lost acknowledged records: partition: (acknowledged end, end now) {lost}")
    return metrics


def load_offsets(target: Target, scale: Scale) -> Metrics:
    """Kill -9 with many committed offsets, until the coordinator knows them all."""
    return offsets.measure(target, scale.committed_offsets)


RUNS: dict[str, Callable[[Target, Scale], Metrics]] = {
    "start": start,
    "idle": idle,
    "through": through,
    "offsets": load_offsets,
}


def repeats(name: str, scale: Scale, asked: int) -> int:
    """How often a figure is measured: starts are many, the 10 GB go through once."""
    return {"start": scale.starts, "through": 1}.get(name, asked)
