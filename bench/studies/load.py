"""Measure the load generator: `python -m bench.studies.load` runs `broker-load` as child processes with separate
brokers.

- kafka-user: acknowledged requests of one record a second of CPU, scheduled and verified (goal: 25,000), at the highest
  rate that one process reaches, in turn with locust-plugins' unmodified KafkaUser (goal: 145 times its rate) and its
  best variants (bench/specs/locustfiles/kafka_user.py).
- raw: acknowledged records of 100 B a second of one worker with the engine raw (goal: 1,000,000).
- lateness: the generator's own delay at 5,000/s with 1,000 users (goal: p99 1 ms).
- bench: the p99 of the latency, compared with `broker-bench run` for the same schedule (goal: within 10 %).
- frozen: the highest reported latency if the broker is frozen for 1 s (goal: 0.95 s).
- idle: memory of a process with 10,000 idle connections (goal: 250 MB).
- verify: the decrease of requests in a second of CPU with verification (goal: 10 %).

Every part has its own broker. Generator and broker share the machine: on a busy machine, compare the ratios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.studies import goals
from bench.studies.goals import Goals
from bench.studies.load_parts import CONNECTIONS, PARTS, Place, Sizes
from bench.targets.brokers import raise_file_limit

PROGRAM = "bench.studies.load"
GOALS = Goals(
    at_least={
        "load_core_requests_per_s": 25_000.0,
        "load_to_kafka_user_plain_ratio": 145.0,
        "load_raw_verified_records_per_s": 1_000_000.0,
        "load_raw_records_per_s": 1_000_000.0,
        "load_gevent_frozen_max_ms": 950.0,
        "load_raw_frozen_max_ms": 950.0,
    },
    at_most={
        "load_lateness_p99_ms": 1.0,
        "load_raw_to_bench_p99_ratio": 1.1,
        "load_gevent_to_bench_p99_ratio": 1.1,
        "load_idle_mb": 250.0,
        "load_verify_gevent_percent": 10.0,
        "load_verify_raw_percent": 10.0,
        "load_verify_librdkafka_percent": 10.0,
    },
)
# Files of a process in addition to its connections.
FILES = 1_000


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = goals.parser(PROGRAM, __doc__, PARTS)
    parser.add_argument("--seconds", type=float, default=5.0, help="the measured time of each run")
    parser.add_argument("--pairs", type=int, default=4, help="how often each side of a comparison is measured")
    parser.add_argument("--first-rate", type=int, default=4_000, help="requests/s at which kafka-user begins")
    parser.add_argument("--most-rate", type=int, default=128_000, help="requests/s that kafka-user tries at most")
    parser.add_argument("--rate", type=int, default=5_000, help="requests/s of lateness and bench")
    parser.add_argument("--users", type=int, default=1_000, help="users of lateness")
    parser.add_argument("--connections", type=int, default=10_000, help="connections of idle")
    given = parser.parse_args(argv)
    goals.check(parser, given, PARTS, ("pairs", "first_rate", "most_rate", "rate", "users", "connections"))
    if given.seconds < 1:
        parser.error(f"--seconds {given.seconds:g}: a number from 1 on is expected")
    if given.most_rate < given.first_rate:
        parser.error(f"--most-rate {given.most_rate}: at least --first-rate {given.first_rate} is expected")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns the exit code (`goals.measure`)."""
    given = arguments(argv)
    raise_file_limit(max(given.connections, given.users, CONNECTIONS) + FILES)
    names = ("seconds", "pairs", "first_rate", "most_rate", "rate", "users", "connections")
    sizes = Sizes(**{name: getattr(given, name) for name in names})
    with tempfile.TemporaryDirectory(prefix="bench-load-") as name:
        return goals.measure(PROGRAM, given, GOALS, lambda part: PARTS[part](Place(Path(name)), sizes))


if __name__ == "__main__":
    sys.exit(main())
