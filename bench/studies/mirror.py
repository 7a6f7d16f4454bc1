"""The mirror beside MirrorMaker 2: `python -m bench.studies.mirror --help`.

Both copy between the same two brokers of this project, each its own topics, run at the same time, and are measured in
turns, warm. In `rate` a mirror is stopped by SIGSTOP while records are produced, and then copies them alone: 1 KB
records in batches of 1 MB. In `lag` records are produced on a schedule, and the age of each is measured when a consumer
of the target gets it. Ours copies exactly once, MirrorMaker 2 at least once: both as by default.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.launch.mirrors import BrokerMirror, MirrorMaker, MirrorNode
from bench.launch.nodes import BrokerCy
from bench.measuring import proc
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.mirror_load import PARTITIONS, RECORD_BYTES, TIMEOUT_S, Topic, ages_ms, copied, create, fill
from bench.studies.peers import ratios, warm
from bench.targets.brokers import TargetError
from broker_cy.admin import AdminClient

PROGRAM = "bench.studies.mirror"
PARTS = ("rate", "lag")
BACKLOG_MB, PAIRS = 500, 5
RATE, SECONDS = 10_000, 10.0
FIRST_S_MAX, WINDOW_S_MAX = 180.0, 300.0
POLL_S = 0.005
GOALS = Goals(
    at_least={"ours_mb_per_s": 400.0},
    at_most={"cpu_per_gb_s_ratio": 0.2, "ours_resident_mb": 60.0, "ours_lag_p99_ms": 100.0},
)
KINDS: dict[str, type[MirrorNode]] = {"ours": BrokerMirror, "mm2": MirrorMaker}
Figure = dict[str, list[float]]


class Side:
    """A mirror that runs, and its topics."""

    def __init__(self, name: str, node: MirrorNode, brokers: tuple[str, str]) -> None:
        self.name, self.node = name, node
        self.bulk, self.paced = (Topic(f"{name}-{kind}", *brokers) for kind in ("bulk", "paced"))

    async def prepare(self) -> None:
        """Wait until it copies both topics."""
        for topic in (self.bulk, self.paced):
            await fill(topic, 1)
            async with AdminClient(topic.target, timeout_s=TIMEOUT_S) as client:
                await self._copied(client, topic, PARTITIONS, FIRST_S_MAX)

    async def _copied(self, client: AdminClient, topic: Topic, wanted: int, limit_s: float) -> None:
        """Wait until the copy of a topic ends at `wanted`. Raises TargetError."""
        until_s = time.perf_counter() + limit_s
        while await copied(client, topic) < wanted:
            if time.perf_counter() > until_s or self.node.child.returncode is not None:
                raise TargetError(f"{self.node.name} did not copy {topic.name} in {limit_s:g} s: {self.node.tail()}")
            await asyncio.sleep(POLL_S)

    async def rate(self, size_mb: int) -> tuple[float, float]:
        """Copy a backlog of `size_mb`; return MB per second, and CPU seconds per GB of the mirror."""
        records = size_mb * 1_000_000 // RECORD_BYTES // PARTITIONS
        async with AdminClient(self.bulk.target, timeout_s=TIMEOUT_S) as client:
            before = await copied(client, self.bulk)
            self.node.child.send_signal(signal.SIGSTOP)
            try:
                await fill(self.bulk, records)
                used = proc.usage(self.node.pid)
            finally:
                self.node.child.send_signal(signal.SIGCONT)
            begun_s = time.perf_counter()
            # Markers of transactions count too: a few for each hundred thousand records.
            await self._copied(client, self.bulk, before + records * PARTITIONS, WINDOW_S_MAX)
        lasted_s = time.perf_counter() - begun_s
        size_bytes = records * PARTITIONS * RECORD_BYTES
        return size_bytes / lasted_s / 1e6, (proc.usage(self.node.pid) - used).cpu_s / size_bytes * 1e9

    def warm(self, size_mb: int) -> None:
        warm(lambda: asyncio.run(self.rate(size_mb))[0])

    async def lag(self, rate: int, seconds: float) -> tuple[float, float, float]:
        """Return p50 and p99 of the age of records in ms, and the CPU seconds of the mirror in a second."""
        used = proc.usage(self.node.pid)
        found = sorted(await ages_ms(self.paced, rate, seconds))
        cpu_s = (proc.usage(self.node.pid) - used).cpu_s
        return found[len(found) // 2], found[len(found) * 99 // 100], cpu_s / seconds


class Study:
    """The brokers, and the mirrors between them."""

    def __init__(self, place: Path, given: argparse.Namespace) -> None:
        self.place, self.given = place, given

    @contextlib.contextmanager
    def sides(self, part: str) -> Iterator[dict[str, Side]]:
        with contextlib.ExitStack() as stack:
            brokers = []
            for name in ("source", "target"):
                node = BrokerCy(self.place / f"{part}-{name}")
                stack.callback(node.close)
                brokers.append(node.start().bootstrap)
            source, target = brokers
            found = {}
            for name in self.given.on:
                mirror = KINDS[name](self.place / f"{part}-{name}", source, target, f"{name}-.*")
                stack.callback(mirror.close)
                side = Side(name, mirror, (source, target))
                for topic in (side.bulk, side.paced):
                    asyncio.run(create(topic))
                mirror.start()
                found[name] = side
            for side in found.values():
                asyncio.run(side.prepare())
            yield found

    def rate(self) -> Figures:
        figures = ("mb_per_s", "cpu_per_gb_s")
        found: Figure = {}
        with self.sides("rate") as sides:
            for side in sides.values():
                side.warm(self.given.megabytes)
            for _ in range(self.given.pairs):
                for name, side in sides.items():
                    values = asyncio.run(side.rate(self.given.megabytes))
                    for figure, value in zip(figures, values, strict=True):
                        found.setdefault(f"{name}_{figure}", []).append(value)
            for name, side in sides.items():
                found[f"{name}_resident_mb"] = [proc.resident_bytes(side.node.pid) / 1e6]
        return {**found, **ratios(found, "mm2", figures)}

    def lag(self) -> Figures:
        figures = ("lag_p50_ms", "lag_p99_ms", "lag_cores")
        found: Figure = {}
        with self.sides("lag") as sides:
            for side in sides.values():
                asyncio.run(side.lag(self.given.rate, self.given.seconds))
            for _ in range(self.given.pairs):
                for name, side in sides.items():
                    values = asyncio.run(side.lag(self.given.rate, self.given.seconds))
                    for figure, value in zip(figures, values, strict=True):
                        found.setdefault(f"{name}_{figure}", []).append(value)
        return {**found, **ratios(found, "mm2", ("lag_p99_ms",))}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    made = parser(PROGRAM, __doc__, PARTS)
    shown = " (default: %(default)s)"
    made.add_argument("--on", default="ours,mm2", help=f"mirrors to measure{shown}")
    made.add_argument("--pairs", type=int, default=PAIRS, help=f"turns of each mirror{shown}")
    made.add_argument("--megabytes", type=int, default=BACKLOG_MB, help=f"records of a window of `rate`{shown}")
    made.add_argument("--rate", type=int, default=RATE, help=f"records/s of `lag`{shown}")
    made.add_argument("--seconds", type=float, default=SECONDS, help=f"duration of a window of `lag`{shown}")
    given = made.parse_args(argv)
    check(made, given, PARTS, ("pairs", "megabytes", "rate", "seconds"))
    given.on = given.on.split(",")
    if unknown := set(given.on) - KINDS.keys():
        made.error(f"--on {', '.join(sorted(unknown))}: unknown (allowed: {', '.join(KINDS)})")
    with tempfile.TemporaryDirectory(prefix="mirror-study-") as place:
        study = Study(Path(place), given)
        return measure(PROGRAM, given, GOALS, lambda part: getattr(study, part)())


if __name__ == "__main__":
    sys.exit(main())
