"""The heartbeats and rebalances of consumer groups (KIP-848): `python -m bench.studies.heartbeats`.

The members are in one process, without threads; each has a connection of its own. Kafka's figures are those of Apache
Kafka 4.3.1 with the same load. `cores` is the CPU of the broker while nothing changes. `turns` needs no broker: the
longest turns of the event loop for groups of any type that read 10,000 topics (`bench.studies.group_turns`).

All figures take 12 minutes. These take less:

    python -m bench.studies.heartbeats --only steady --on ours --members 2500 --join 10 --steady 20  # 40 s
    python -m bench.studies.heartbeats --only rebalance --on ours --rounds 1  # 30 s
    python -m bench.studies.heartbeats --only turns  # 30 s
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.measuring import proc
from bench.spec.target import BROKER_SETTINGS
from bench.studies import group_turns
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.heartbeat_members import Members
from bench.targets.brokers import BrokerCy, Kafka, Spawned, TargetError
from bench.wire.protocol import Client

PROGRAM = "bench.studies.heartbeats"
MEMBERS = 10_000
JOIN_S, STEADY_S, LIMIT_S = 60.0, 60.0, 300.0
# Heartbeats before those that are measured: each member of a group that has just become stable sends one that is unlike
# the later ones, and a JVM still compiles.
WARM_UP_S = 20.0
FIND_COORDINATOR, START_S, LOOK_S = 10, 30.0, 0.1
SMALL = 1_000  # members, and partitions, of the group that rebalances
# A rebalance takes one interval of heartbeats or two: that depends on when in its interval each member is.
ROUNDS = 5
PARTS = ("steady", "rebalance", "turns")
TURN_MS_MAX = 5.0
STEADY_PARTITIONS = 100
# The ratio of each of these figures, ours to Kafka's.
RATIOS = {
    "cores": "cores_ratio",
    "rebalance_leave_s": "rebalance_leave_ratio",
    "rebalance_join_s": "rebalance_join_ratio",
}
GOALS = Goals(
    at_most={
        "ours_cores": 0.10,
        "cores_ratio": 0.3,
        "rebalance_join_ratio": 0.5,
        **dict.fromkeys(group_turns.FIGURES, TURN_MS_MAX),
    }
)
# One partition has the group, as in a cluster whose groups are spread over the brokers.
SETTINGS = {**BROKER_SETTINGS, "offsets.topic.num.partitions": "1"}
BROKERS: dict[str, Callable[[Path], Spawned]] = {
    "ours": lambda directory: BrokerCy(directory, SETTINGS),
    "kafka": lambda directory: Kafka(directory, SETTINGS),
}


def find_coordinator(client: Client, group: str) -> None:
    """Wait until the group has a coordinator, for which the broker creates a topic. Raises TargetError."""
    deadline_s = time.monotonic() + START_S
    body = struct.pack(">h", len(group)) + group.encode() + b"\0"
    while True:
        reader = client.call(FIND_COORDINATOR, 1, body, flexible=False)
        reader.take(4)
        code = reader.number(2)
        if not code:
            return
        if time.monotonic() > deadline_s:
            raise TargetError(f"FindCoordinator: error {code} after {START_S:g} s")
        time.sleep(LOOK_S)


def group_on(broker: Spawned, topic: str, partitions: int) -> Members:
    """Create the topic, wait for the coordinator, and return the members of a group, which do not exist yet."""
    with Client(broker.address) as client:
        client.create_topic(topic, partitions, {})
        find_coordinator(client, topic)
    return Members(broker.address, topic, topic)


def steady(side: str, broker: Spawned, count: int, join_s: float, steady_s: float) -> Figures:
    members = group_on(broker, "steady", STEADY_PARTITIONS)
    try:
        before = proc.usage(broker.pid)
        members.join(count, join_s)
        joined_s = members.run(lambda: members.is_stable(STEADY_PARTITIONS), LIMIT_S)
        join_cpu_s = proc.usage(broker.pid).cpu_s - before.cpu_s
        warm_s = time.monotonic() + WARM_UP_S
        members.run(lambda: time.monotonic() >= warm_s, LIMIT_S)
        members.answered, members.latencies_s = 0, []
        before, end_s = proc.usage(broker.pid), time.monotonic() + steady_s
        lasted_s = members.run(lambda: time.monotonic() >= end_s, LIMIT_S)
        cpu_s = proc.usage(broker.pid).cpu_s - before.cpu_s
        latencies_ms = sorted(each * 1000 for each in members.latencies_s)
    finally:
        members.close()
    return {
        f"{side}_join_s": joined_s,
        f"{side}_join_cpu_s": join_cpu_s,
        f"{side}_heartbeats_per_s": members.answered / lasted_s,
        f"{side}_cores": cpu_s / lasted_s,
        f"{side}_cpu_us_per_heartbeat": cpu_s / members.answered * 1e6,
        f"{side}_p50_ms": statistics.median(latencies_ms),
        f"{side}_p99_ms": latencies_ms[len(latencies_ms) * 99 // 100],
    }


def rebalance(side: str, broker: Spawned, size: int, rounds: int) -> Figures:
    members = group_on(broker, "rebalance", size)
    try:
        members.join(size, 5.0)
        members.run(lambda: members.is_stable(size), LIMIT_S)
        leaves_s, joins_s = [], []
        for _ in range(rounds):
            members.leave(size // 10)
            leaves_s.append(members.run(lambda: members.is_stable(size), LIMIT_S))
            members.join(size // 10, 0.0)
            joins_s.append(members.run(lambda: members.is_stable(size), LIMIT_S))
    finally:
        members.close()
    return {
        f"{side}_rebalance_leave_s": statistics.median(leaves_s),
        f"{side}_rebalance_leave_max_s": max(leaves_s),
        f"{side}_rebalance_join_s": statistics.median(joins_s),
        f"{side}_rebalance_join_max_s": max(joins_s),
    }


def figures_of(part: str, given: argparse.Namespace) -> Figures:
    """Raises TargetError, OSError."""
    if part == "turns":
        return group_turns.turns(given.topics, given.rounds)
    found: Figures = {}
    for side in given.on.split(","):
        with tempfile.TemporaryDirectory(prefix="heartbeats-") as place:
            broker = BROKERS[side](Path(place) / side)
            with broker.running():
                if part == "steady":
                    found |= steady(side, broker, given.members, given.join, given.steady)
                else:
                    found |= rebalance(side, broker, given.size, given.rounds)
    for figure, ratio in RATIOS.items():
        ours, kafka = found.get(f"ours_{figure}"), found.get(f"kafka_{figure}")
        if isinstance(ours, float) and isinstance(kafka, float):
            found[ratio] = ours / kafka
    return found


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    made = parser(PROGRAM, __doc__, PARTS)
    shown = " (default: %(default)s)"
    made.add_argument("--on", default=",".join(BROKERS), help=f"brokers to measure, separated by commas{shown}")
    made.add_argument("--members", type=int, default=MEMBERS, help=f"members that send heartbeats{shown}")
    made.add_argument("--join", type=float, default=JOIN_S, metavar="S", help=f"time in which they join{shown}")
    made.add_argument("--steady", type=float, default=STEADY_S, metavar="S", help=f"time of heartbeats{shown}")
    made.add_argument("--size", type=int, default=SMALL, help=f"members and partitions of the rebalance{shown}")
    made.add_argument("--topics", type=int, default=group_turns.TOPICS, help=f"topics that groups read in turns{shown}")
    made.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"times that a tenth leaves and joins, and of all turns{shown}"
    )
    given = made.parse_args()
    check(made, given, PARTS, ("members", "join", "steady", "size", "topics", "rounds"))
    if unknown := set(given.on.split(",")) - set(BROKERS):
        made.error(f"--on {', '.join(sorted(unknown))}: unknown (allowed: {', '.join(BROKERS)})")
    return measure(PROGRAM, given, GOALS, lambda part: figures_of(part, given))


if __name__ == "__main__":
    sys.exit(main())
