"""Measure the lag of many groups with the admin core: `python -m bench.studies.lag` starts a broker and requests the
lag of 2,000 groups x 50 partitions.

Groups share topics, as in practice. Prints the seconds for the lag in records (goal: 2 s), the longest time for which
the event loop was blocked, which is how long a key press waits, and the seconds for judging all groups. With --time,
also measures the lag in time, from the broker's events of the commits and from the records: it waits until the broker
has reported all commits, at 1,000 per second.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from bench.targets.brokers import BrokerCy
from broker_cy.admin import AdminClient
from broker_cy.admin.collector import relax_collector
from broker_cy.admin.group_lag import GroupLag, LagCalls, RecordTimestamps
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record

REACH_S = 2.0
COMMITS_AT_ONCE = 32
# Rate of a broker's events of commits, which determines how long to wait (docs/architecture-bounds.md).
COMMITS_TOLD_PER_S = 1_000


async def set_up(client: AdminClient, groups: int, topics: int, partitions: int) -> list[str]:
    """Create topics with ten records per partition, and groups that have committed every partition of one topic."""
    names = [f"bench-lag-{number}" for number in range(topics)]
    (await client.topics.create([NewTopic(name, partitions, 1) for name in names])).whole()
    producer = client.records.producer()
    every = [TopicPartition(name, index) for name in names for index in range(partitions)]
    record = Record(timestamp=int(time.time() * 1000), value=b"x")
    await asyncio.gather(*(producer.send_batch(key, [record] * 10) for key in every))
    turns = asyncio.Semaphore(COMMITS_AT_ONCE)

    async def commit(number: int) -> str:
        group, topic = f"bench-group-{number:05}", names[number % topics]
        async with turns:
            offsets = {TopicPartition(topic, index): index % 11 for index in range(partitions)}
            (await client.group_offsets.alter(group, offsets)).whole()
        return group

    return list(await asyncio.gather(*(commit(number) for number in range(groups))))


class Watch:
    """Measures the longest time for which the event loop was blocked."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def run(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.worst_s = max(self.worst_s, time.perf_counter() - before - 0.001)


async def measure(bootstrap: str, groups: int, topics: int, partitions: int, repeats: int) -> dict[str, float]:
    """Request the lag of all groups `repeats` times, each with a new client; returns median seconds."""
    async with AdminClient(bootstrap, timeout_s=120) as client:
        ids = await set_up(client, groups, topics, partitions)
    took, judged, held = [], [], []
    history = LagHistory()
    for repeat in range(repeats):
        async with AdminClient(bootstrap, timeout_s=120) as client:
            watch = Watch()
            task = asyncio.create_task(watch.run())
            begun = time.perf_counter()
            lags = (await client.lag.of(ids)).whole()
            took.append(time.perf_counter() - begun)
            task.cancel()
            held.append(watch.worst_s)
            assert sum(len(lag.partitions) for lag in lags.values()) == groups * partitions
            assert all(lag.is_complete for lag in lags.values())
            begun = time.perf_counter()
            history.note(lags.values(), 1_000 * (repeat + 1))
            for group in ids:
                history.status(group)
            judged.append(time.perf_counter() - begun)
    middle = repeats // 2
    return {"lag_s": sorted(took)[middle], "loop_held_s": sorted(held)[middle], "judge_s": sorted(judged)[middle]}


async def measure_times(bootstrap: str, groups: int) -> dict[str, float]:
    """Return the seconds for the time lag of all groups of `measure`: with events of all partitions, and by records."""
    names = [f"bench-group-{number:05}" for number in range(groups)]
    figures = {}
    while True:
        async with AdminClient(bootstrap, timeout_s=120) as client:
            lags = list((await client.lag.of(names)).whole().values())
            figures["time_by_events_s"] = await _times(client.lag, lags)
            behind = sum(1 for lag in lags for part in lag.partitions if part.lag)
            missing = behind - sum(len(client.timestamps.notes.exact(lag)) for lag in lags)
            if not missing:
                figures["time_by_records_s"] = await _times(client.lag.using(RecordTimestamps(client.records)), lags)
                return figures
            print(f"{missing:,} commits have no event yet", file=sys.stderr)
        await asyncio.sleep(min(10.0, 1.0 + missing / COMMITS_TOLD_PER_S))


async def _times(calls: LagCalls, lags: Iterable[GroupLag]) -> float:
    begun = time.perf_counter()
    for lag in lags:
        (await calls.times(lag, int(time.time() * 1000))).whole()
    return time.perf_counter() - begun


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and the goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.studies.lag", description=__doc__)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=50, help="partitions of each group")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--target", metavar="HOST:PORT", help="a running broker, broker-cy or Kafka")
    parser.add_argument("--time", action="store_true", help="also measure the lag in time (not with Apache Kafka)")
    parser.add_argument("--json-file", dest="json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    relax_collector()

    async def all_figures(bootstrap: str) -> dict[str, float]:
        found = await measure(bootstrap, given.groups, given.topics, given.partitions, given.repeats)
        return found | (await measure_times(bootstrap, given.groups) if given.time else {})

    if given.target:
        figures = asyncio.run(all_figures(given.target))
    else:
        with tempfile.TemporaryDirectory() as directory:
            target = BrokerCy(Path(directory) / "data")
            with target.running():
                host, port = target.address
                figures = asyncio.run(all_figures(f"{host}:{port}"))
    shape_text = f"{given.groups:,} groups x {given.partitions} partitions"
    print(f"lag of {shape_text}: {figures['lag_s']:.2f} s (goal: {REACH_S:g} s)")
    held_ms = figures["loop_held_s"] * 1000
    print(f"loop blocked for at most {held_ms:.0f} ms; evaluated in {figures['judge_s']:.2f} s; {os.cpu_count()} cores")
    if given.time:
        by_events, by_records = figures["time_by_events_s"], figures["time_by_records_s"]
        print(f"lag in time: {by_events:.2f} s by events, {by_records:.2f} s by records")
    if given.json:
        Path(given.json).write_text(json.dumps(figures))
    return 3 if given.strict and figures["lag_s"] > REACH_S else 0


if __name__ == "__main__":
    sys.exit(main())
