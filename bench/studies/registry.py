"""The schema registry beside Apicurio Registry: `python -m bench.studies.registry --help`.

Both keep their schemas in a topic of a broker of this project, run at the same time, and are measured in turns, warm.
`gets_a_core` are requests for a schema by its id for each CPU second of the registry. The latency beside a parser is
that of such requests at a fixed rate, from the time when one was due, while another client registers .proto files of
1,500 lines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.launch.nodes import BrokerCy
from bench.launch.registries import Apicurio, BrokerRegistry, RegistryNode
from bench.measuring import proc
from bench.studies.goals import Figures, Goals, check, measure, parser
from bench.studies.peers import ratios, warm
from bench.studies.registry_load import (
    Connection,
    authoring,
    avro,
    fill,
    filled,
    get,
    registration,
    timed_ms,
    together,
)
from bench.targets.brokers import TargetError

PROGRAM = "bench.studies.registry"
PARTS = ("start", "memory", "gets", "registrations", "parse")
FEW, MANY, MEMORY_SCHEMAS = 1_000, 100_000, 10_000
CONNECTIONS, SCHEMAS, PAIRS = 16, 200, 3
GETS, REGISTRATIONS = 20_000, 1_500
RATE, SECONDS = 200, 5.0
LOST_MAX = 2
START_S_MAX, FIRST_S_MAX = 300.0, 60.0
GOALS = Goals(
    at_least={"ours_gets_a_core": 15_000.0, "ours_registrations_per_s": 1_000.0},
    at_most={
        "ours_start_1000_ms": 300.0,
        "ours_start_100000_ms": 5_000.0,
        "ours_resident_mb": 80.0,
        "ours_beside_parser_p99_ms": 10.0,
    },
)
Figure = dict[str, list[float]]
_T = TypeVar("_T")


class Side:
    """A registry that runs, with the schemas of the measurements."""

    def __init__(self, node: RegistryNode) -> None:
        self.node, self.address, self.root = node, (node.host, node.port), node.root
        self.ids: list[int] = []
        self._subjects = itertools.count()
        self._large = itertools.count(step=10_000)

    def prepare(self) -> None:
        until_s = time.perf_counter() + FIRST_S_MAX
        with Connection(self.address) as connection:
            for number in range(SCHEMAS):
                status = 0
                # The first change creates the broker's topic of transactions, which a busy machine may delay.
                while status != 200 and (not status or time.perf_counter() < until_s):
                    connection.send(registration(self.root, f"read-{number}", avro(number)))
                    status, body = connection.answer()
                if status != 200:
                    raise TargetError(f"{self.node.name} answered {status}: {body[:500]!r}")
                self.ids.append(int(json.loads(body)["id"]))

    def _window(self, requests: Iterator[bytes]) -> tuple[float, float]:
        """Return the rate, and the requests for each CPU second."""
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(Connection(self.address)) for _ in range(CONNECTIONS)]
            before, begun_s = proc.usage(self.node.pid), time.perf_counter()
            done = together(connections, requests)
            lasted_s = time.perf_counter() - begun_s
        # Another process is shown CPU time with a delay of up to a tick, and none for a few requests.
        cpu_s = max((proc.usage(self.node.pid) - before).cpu_s, proc.TICK_S)
        return done / lasted_s, done / cpu_s

    def gets(self, count: int) -> tuple[float, float]:
        made = [get(f"{self.root}/schemas/ids/{each}") for each in self.ids]
        return self._window(itertools.islice(itertools.cycle(made), count))

    def wait_for(self, subject: str) -> None:
        """Wait until the registry has a subject: Apicurio answers before it has read its topic. Raises TargetError."""
        request, until_s = get(f"{self.root}/subjects/{subject}/versions/1"), time.perf_counter() + START_S_MAX
        with Connection(self.address) as connection:
            while True:
                connection.send(request)
                status, body = connection.answer()
                if status == 200:
                    return
                if time.perf_counter() > until_s:
                    raise TargetError(f"{self.node.name} does not know {subject}: {status}: {body[:500]!r}")
                time.sleep(0.05)

    def read_all(self, subjects: Iterator[str]) -> None:
        """Request the first version of each subject."""
        self._window(get(f"{self.root}/subjects/{each}/versions/1") for each in subjects)

    def registrations(self, count: int) -> tuple[float, float]:
        def made() -> Iterator[bytes]:
            for _ in range(count):
                number = next(self._subjects)
                yield registration(self.root, registered(number), avro(1_000_000 + number))

        return self._window(made())

    def warm(self, work: str, count: int) -> None:
        warm(lambda: float(answered(self, partial(getattr(self, work), count))[0]))

    def beside_parser(self, seconds: float) -> tuple[list[float], int]:
        """Return the latencies, and how many files were registered meanwhile."""
        request = get(f"{self.root}/schemas/ids/{self.ids[0]}")
        with authoring(self.address, self.root, next(self._large)) as author:
            found = timed_ms(self.address, request, RATE, seconds)
            if author.problem:
                raise TargetError(f"{self.node.name} refused a large schema: {author.problem}")
            return found, author.done


class Study:
    """The broker, and the registries that run over it."""

    def __init__(self, place: Path, given: argparse.Namespace) -> None:
        self.place, self.given = place, given
        self._brokers = itertools.count()

    @contextlib.contextmanager
    def broker(self) -> Iterator[BrokerCy]:
        node = BrokerCy(self.place / f"broker-{next(self._brokers)}")
        try:
            yield node.start()
        finally:
            node.close()

    @contextlib.contextmanager
    def sides(self) -> Iterator[dict[str, Side]]:
        kinds: dict[str, type[RegistryNode]] = {"ours": BrokerRegistry, "apicurio": Apicurio}
        with self.broker() as broker, contextlib.ExitStack() as stack:
            found = {}
            for name in self.given.on:
                node = kinds[name](self.place / f"{name}-{next(self._brokers)}", broker.bootstrap)
                stack.callback(node.close)
                found[name] = Side(node.start())
                found[name].prepare()
            yield found

    def _pairs(self, work: str, count: int, figures: tuple[str, str]) -> Figures:
        found: Figure = {}
        with self.sides() as sides:
            for side in sides.values():
                side.warm(work, count)
            for _ in range(self.given.pairs):
                for name, side in sides.items():
                    values = answered(side, partial(getattr(side, work), count))
                    for figure, value in zip(figures, values, strict=True):
                        found.setdefault(f"{name}_{figure}", []).append(value)
        return {**found, **ratios(found, "apicurio", figures)}

    def gets(self) -> Figures:
        return self._pairs("gets", GETS, ("gets_per_s", "gets_a_core"))

    def registrations(self) -> Figures:
        return self._pairs("registrations", REGISTRATIONS, ("registrations_per_s", "registrations_a_core"))

    def parse(self) -> Figures:
        found: Figure = {}
        with self.sides() as sides:
            for side in sides.values():
                side.warm("gets", GETS // 4)
                answered(side, partial(side.beside_parser, self.given.seconds))
            for _ in range(self.given.pairs):
                for name, side in sides.items():
                    request = get(f"{side.root}/schemas/ids/{side.ids[0]}")
                    alone = answered(side, partial(timed_ms, side.address, request, RATE, self.given.seconds))
                    beside, files = answered(side, partial(side.beside_parser, self.given.seconds))
                    for figure, value in (
                        ("alone_p99_ms", alone[len(alone) * 99 // 100]),
                        ("beside_parser_p99_ms", beside[len(beside) * 99 // 100]),
                        ("files_per_s", files / self.given.seconds),
                    ):
                        found.setdefault(f"{name}_{figure}", []).append(value)
        return {**found, **ratios(found, "apicurio", ("beside_parser_p99_ms",))}

    def start(self) -> Figures:
        found: Figure = {}
        node: RegistryNode
        for count in (FEW, MANY):
            with self.broker() as broker:
                asyncio.run(fill(broker.bootstrap, count))
                node = BrokerRegistry(self.place / f"start-{count}", broker.bootstrap)
                node.choose_ports()
                subject = filled(1)
                found[f"ours_start_{count}_ms"] = [started_ms(node, subject) for _ in range(self.given.pairs)]
        if "apicurio" in self.given.on:
            with self.broker() as broker:
                node = Apicurio(self.place / "start-apicurio", broker.bootstrap)
                try:
                    side = Side(node.start())
                    side.registrations(FEW)
                finally:
                    node.close()
                subject = registered(0)
                found[f"apicurio_start_{FEW}_ms"] = [started_ms(node, subject) for _ in range(self.given.pairs)]
        return {**found, **ratios(found, "apicurio", (f"start_{FEW}_ms",))}

    def memory(self) -> Figures:
        """The resident memory after a start with the schemas, and a request for each of them."""
        found: Figures = {}
        kinds: dict[str, type[RegistryNode]] = {"ours": BrokerRegistry, "apicurio": Apicurio}
        for name in self.given.on:
            with self.broker() as broker:
                node = kinds[name](self.place / f"memory-{name}", broker.bootstrap)
                try:
                    if name == "ours":
                        asyncio.run(fill(broker.bootstrap, MEMORY_SCHEMAS))
                    else:
                        Side(node.start()).registrations(MEMORY_SCHEMAS)
                        node.kill()
                    subjects = (
                        map(filled, range(1, MEMORY_SCHEMAS + 1))
                        if name == "ours"
                        else map(registered, range(MEMORY_SCHEMAS))
                    )
                    side = Side(node.start())
                    side.wait_for(registered(MEMORY_SCHEMAS - 1) if name == "apicurio" else filled(MEMORY_SCHEMAS))
                    side.read_all(subjects)
                    found[f"{name}_resident_mb"] = proc.resident_bytes(node.pid) / 1e6
                finally:
                    node.close()
        return found


def answered(side: Side, measured: Callable[[], _T]) -> _T:
    """Return what `measured` returns. It is called again after a timeout, at most LOST_MAX times: Apicurio 3.3.3 at
    times leaves a request of a new connection without an answer. Raises TargetError.
    """
    for _ in range(LOST_MAX + 1):
        with contextlib.suppress(TimeoutError):
            return measured()
    raise TargetError(f"{side.node.name} left requests without an answer, {LOST_MAX + 1} times")


def registered(number: int) -> str:
    """Return a subject of `Side.registrations`."""
    return f"new-{number}"


def started_ms(node: RegistryNode, subject: str) -> float:
    """Return the time from the start of the process until it has answered with a schema; it is ended then."""
    request = get(f"{node.root}/subjects/{subject}/versions/1")
    node.prepare()
    begun_s = time.perf_counter()
    child = node.launch()
    try:
        while True:
            try:
                with Connection((node.host, node.port)) as connection:
                    connection.send(request)
                    if connection.status() == 200:
                        return (time.perf_counter() - begun_s) * 1000
            except (OSError, TargetError):
                pass
            if child.returncode is not None or time.perf_counter() - begun_s > START_S_MAX:
                raise TargetError(f"{node.name} did not answer: {child.tail()}")
            time.sleep(0.002)
    finally:
        node.kill()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    made = parser(PROGRAM, __doc__, PARTS)
    shown = " (default: %(default)s)"
    made.add_argument("--on", default="ours,apicurio", help=f"registries to measure{shown}")
    made.add_argument("--pairs", type=int, default=PAIRS, help=f"turns of each registry{shown}")
    made.add_argument("--seconds", type=float, default=SECONDS, help=f"duration of a window with a parser{shown}")
    given = made.parse_args(argv)
    check(made, given, PARTS, ("pairs", "seconds"))
    given.on = given.on.split(",")
    if unknown := set(given.on) - {"ours", "apicurio"}:
        made.error(f"--on {', '.join(sorted(unknown))}: unknown (allowed: ours, apicurio)")
    with tempfile.TemporaryDirectory(prefix="registry-study-") as place:
        study = Study(Path(place), given)
        return measure(PROGRAM, given, GOALS, lambda part: getattr(study, part)())


if __name__ == "__main__":
    sys.exit(main())
