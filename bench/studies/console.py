"""Measure the terminal console: `python -m bench.studies.console` runs `broker-tui` in a pseudo-terminal of 160x50 with
a separate broker.

- start: time from the start of the process until the overview shows the cluster's numbers (goal: 0.7 s).
- keys: with 10,000 partitions and 2,000 groups, time from a key press until its effect is drawn. Covers lists, a topic
  of 5,000 partitions, groups, filters and changes of the screen, at random moments, so that refreshes happen in between
  (goal: p99 50 ms). A key pressed right after a list is opened waits until the list is loaded, and is counted
  separately.
- search: search of 10 million records of 100 B for a value in the last record (goal: 1 million records/s), and the time
  that a key press takes during it.
- tail: memory while records arrive at 50,000/s (goal: 150 MB after an hour, --minutes 60; with --minutes 12
  --rate 250000 the same records arrive in a fifth of the time).
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.studies.console_terminal import ConsoleTerminal, percentile
from bench.studies.lag import set_up
from bench.targets.brokers import BrokerCy
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record

REACH = {"start_s": 0.7, "key_p99_ms": 50.0, "tail_peak_mb": 150.0, "search_records_per_s": 1_000_000.0}
LARGE_PARTITIONS, SMALL_TOPICS, SMALL_PARTITIONS = 5_000, 500, 10
GROUPS = 2_000
GROUP_PARTITIONS = 10
RECORD_BYTES = 100
TAIL_STEP_S = 0.02
NEEDLE = "needle-in-the-last"
SEARCH_PARTITIONS = 4
BATCH_RECORDS = 1_000
BATCHES_AT_ONCE = 16
# Old segments of the followed topic are deleted, so that an hour does not fill the disk.
TAIL_SETTINGS = {"retention.bytes": "268435456", "segment.bytes": "67108864", "file.delete.delay.ms": "1000"}
DOWN, UP, ESCAPE, ENTER, BACKSPACE = b"\x1b[B", b"\x1b[A", b"\x1b", b"\r", b"\x7f"
_GONE = re.compile(r"([\d,]+) dropped")


def console(target: BrokerCy, directory: Path) -> ConsoleTerminal:
    """Start a console for the target, with a separate configuration directory."""
    address, port = target.address
    return ConsoleTerminal("--bootstrap", f"{address}:{port}", environment={"XDG_CONFIG_HOME": str(directory)})


def bootstrap_of(target: BrokerCy) -> str:
    return f"{target.address[0]}:{target.address[1]}"


def measure_start(target: BrokerCy, directory: Path, repeats: int) -> dict[str, float]:
    """Measure the median and the maximum of `repeats` starts; one more, before them, fills the page cache."""
    took = []
    for _ in range(repeats + 1):
        terminal = console(target, directory)
        try:
            terminal.shows(r"brokers +\d")
            took.append(time.perf_counter() - terminal.begun_s)
        finally:
            terminal.close()
    return {"start_s": sorted(took[1:])[repeats // 2], "start_worst_s": max(took[1:])}


async def fill_cluster(bootstrap: str) -> None:
    """Create the large topic, the small ones, and groups with committed offsets."""
    async with AdminClient(bootstrap, timeout_s=120) as client:
        (await client.topics.create([NewTopic("large", LARGE_PARTITIONS, 1)])).whole()
        small = [NewTopic(f"small-{number:04}", SMALL_PARTITIONS, 1) for number in range(SMALL_TOPICS - 20)]
        (await client.topics.create(small)).whole()
        await set_up(client, GROUPS, 20, GROUP_PARTITIONS)


class Presser:
    """Presses keys at random moments and records how long each took."""

    def __init__(self, terminal: ConsoleTerminal, seed: int) -> None:
        self.terminal = terminal
        self.random = random.Random(seed)
        self.took_ms: list[float] = []
        self.loading_ms: list[float] = []
        self.worst: list[tuple[float, str]] = []

    def press(self, keys: bytes, pattern: str, what: str) -> None:
        self.took_ms.append(self._took(keys, pattern, what))

    def opened(self, keys: bytes, pattern: str, what: str) -> None:
        """A key press right after a list is opened, while its numbers are loading: counted separately."""
        self.loading_ms.append(self._took(keys, pattern, f"{what} was opened"))
        self.terminal.idle(1.0)

    def _took(self, keys: bytes, pattern: str, what: str) -> float:
        self.terminal.idle(self.random.uniform(0.02, 0.25))
        took_ms = self.terminal.took(keys, pattern) * 1000
        self.worst = sorted([*self.worst, (took_ms, what)], reverse=True)[:12]
        return took_ms

    def list_keys(self, name: Callable[[int], str], last: int) -> None:
        """Move up and down a list whose rows are named by their number; the first row is selected at the end."""
        self.opened(b"G", re.escape(name(last)), f"a list of {last + 1:,} rows")
        self.press(b"g", re.escape(name(0)), "g")
        for at in range(1, 9):
            self.press(b"j", re.escape(name(at)), "j")
        for at in range(7, -1, -1):
            self.press(UP, re.escape(name(at)), "up")


def measure_keys(target: BrokerCy, directory: Path, rounds: int, seed: int) -> dict[str, float]:
    """Measure the percentiles of all key presses."""
    asyncio.run(fill_cluster(bootstrap_of(target)))
    terminal = console(target, directory)
    try:
        terminal.shows(r"brokers +\d")
        keys = Presser(terminal, seed)
        used_s, begun_s = terminal.cpu_s(), time.perf_counter()
        for number in range(rounds):
            terminal.command("topics", r"Topics · \d")
            # Sorted by name; internal topics are hidden.
            keys.opened(b"G", f"small-{SMALL_TOPICS - 21:04}", "the list of topics")
            keys.press(b"g", "bench-lag-0", "topics g")
            keys.press(b"/", "/", "filter")
            wanted = f"small-{keys.random.randrange(100, SMALL_TOPICS - 20):04}"
            for at in range(1, len(wanted) + 1):
                keys.press(wanted[at - 1 : at].encode(), wanted[at - 1], "filter typed")
            keys.press(ENTER, wanted, "filter done")
            keys.press(ENTER, f"topics > {wanted}", "open a topic")
            keys.press(ESCAPE, "Topics", "back")
            terminal.command("topic large", f"Partitions · {LARGE_PARTITIONS:,}")
            keys.list_keys(str, LARGE_PARTITIONS - 1)
            terminal.command("groups", f"Groups · {GROUPS:,}")
            keys.list_keys("bench-group-{:05}".format, GROUPS - 1)
            group = f"bench-group-{0:05}"
            keys.press(ENTER, f"groups > {group}", "open a group")
            keys.press(ESCAPE, "Groups", "back")
            terminal.command("overview", "Health")
            print(f"round {number + 1}: {len(keys.took_ms)} presses", file=sys.stderr)
        used_s, took_s = terminal.cpu_s() - used_s, time.perf_counter() - begun_s
        for took_ms, what in keys.worst:
            print(f"  {took_ms:6.1f} ms {what}", file=sys.stderr)
        return {
            "key_presses": len(keys.took_ms),
            "key_p50_ms": percentile(keys.took_ms, 0.5),
            "key_p99_ms": percentile(keys.took_ms, 0.99),
            "key_worst_ms": max(keys.took_ms),
            "key_while_loading_p50_ms": percentile(keys.loading_ms, 0.5),
            "key_while_loading_p99_ms": percentile(keys.loading_ms, 0.99),
            "key_while_loading_worst_ms": max(keys.loading_ms),
            # It includes concurrent refreshes; on a shared machine it is more meaningful than times.
            "key_cpu_ms": used_s * 1000 / (len(keys.took_ms) + len(keys.loading_ms)),
            "key_cores": used_s / took_s,
        }
    finally:
        terminal.close()


async def fill_topic(bootstrap: str, topic: str, records: int) -> None:
    """Produce `records` records of RECORD_BYTES with different values, and one more that contains NEEDLE."""
    rng = random.Random(1)
    now_ms = int(time.time() * 1000)
    batch = [
        Record(timestamp=now_ms, value=rng.randbytes(RECORD_BYTES // 2).hex().encode()) for _ in range(BATCH_RECORDS)
    ]
    async with AdminClient(bootstrap, timeout_s=120) as client:
        (await client.topics.create([NewTopic(topic, SEARCH_PARTITIONS, 1)])).whole()
        producer = client.records.producer()
        turns = asyncio.Semaphore(BATCHES_AT_ONCE)

        async def send(number: int) -> None:
            async with turns:
                await producer.send_batch(TopicPartition(topic, number % SEARCH_PARTITIONS), batch)

        await asyncio.gather(*(send(number) for number in range(records // BATCH_RECORDS)))
        last = Record(timestamp=now_ms, value=NEEDLE.encode())
        await producer.send_batch(TopicPartition(topic, SEARCH_PARTITIONS - 1), [last])


def measure_search(target: BrokerCy, directory: Path, records: int, seed: int) -> dict[str, float]:
    """Measure from the key that starts the search until the screen shows its end; other keys are pressed in between."""
    asyncio.run(fill_topic(bootstrap_of(target), "haystack", records))
    terminal = console(target, directory)
    try:
        terminal.shows(r"brokers +\d")
        terminal.command("messages haystack beginning", "a page is full")
        terminal.took(b"f", "Records of haystack")
        # The first empty field is that of the partitions; key and value follow.
        for keys in (b"\t", b"\t", NEEDLE.encode()):
            terminal.idle(0.3)
            terminal.press(keys)
        terminal.idle(0.3)
        terminal.forget()
        pause = random.Random(seed)
        took_ms = []
        begun = time.perf_counter()
        terminal.press(ENTER)
        terminal.shows("reading")
        end = r"at the end · 100%[^·]*· 1 found"
        while True:
            terminal.idle(pause.uniform(0.3, 0.7))
            if re.search(end, terminal.text()):
                break
            seen = terminal.text()
            pressed = time.perf_counter()
            terminal.drawn = b""
            # Selects another format of the values; a corner of the screen names it.
            terminal.press(b"v")
            terminal.shows("shown as")
            took_ms.append((time.perf_counter() - pressed) * 1000)
            if re.search(end, seen):
                break
            if time.perf_counter() - begun > 600:
                raise TimeoutError("the search did not end within 600 s")
        seconds = time.perf_counter() - begun
        return {
            "search_records_per_s": records / seconds,
            "search_s": seconds,
            "search_key_presses": len(took_ms),
            "search_key_worst_ms": max(took_ms, default=0.0),
        }
    finally:
        terminal.close()


class Source(threading.Thread):
    """Produces `rate` records a second until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        super().__init__(name="source")
        self._cluster, self._topic, self._rate = bootstrap, topic, rate
        self.records = 0
        self.is_stopped = threading.Event()

    def run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        rng = random.Random(2)
        each = round(self._rate * TAIL_STEP_S)
        values = [rng.randbytes(RECORD_BYTES // 2).hex().encode() for _ in range(each)]
        async with AdminClient(self._cluster, timeout_s=60) as client:
            producer = client.records.producer()
            due = time.perf_counter()
            while not self.is_stopped.is_set():
                now_ms = int(time.time() * 1000)
                batch = [Record(timestamp=now_ms, value=value) for value in values]
                partition = self.records // each % SEARCH_PARTITIONS
                await producer.send_batch(TopicPartition(self._topic, partition), batch)
                self.records += each
                due += TAIL_STEP_S
                await asyncio.sleep(max(0.0, due - time.perf_counter()))


async def create_followed(bootstrap: str) -> None:
    async with AdminClient(bootstrap, timeout_s=60) as client:
        (await client.topics.create([NewTopic("followed", SEARCH_PARTITIONS, 1, configs=TAIL_SETTINGS)])).whole()


def measure_tail(target: BrokerCy, directory: Path, minutes: float, rate: int) -> dict[str, float]:
    """Measure the memory of a console that follows the topic, sampled every second, and its share of one core."""
    bootstrap = bootstrap_of(target)
    asyncio.run(create_followed(bootstrap))
    source = Source(bootstrap, "followed", rate)
    terminal = console(target, directory)
    try:
        terminal.shows(r"brokers +\d")
        terminal.command("messages followed", "nothing found|at the end")
        terminal.took(b"t", "live")
        source.start()
        begun, used = time.perf_counter(), terminal.cpu_s()
        peak = 0
        at_tenth = 0
        while (passed := time.perf_counter() - begun) < minutes * 60:
            terminal.idle(1.0)
            resident = terminal.resident_bytes()
            peak = max(peak, resident)
            if passed < minutes * 6:
                at_tenth = peak
        share = (terminal.cpu_s() - used) / (time.perf_counter() - begun)
        produced_per_s = source.records / (time.perf_counter() - begun)
        terminal.forget()
        terminal.idle(2.0)
        reported = _GONE.findall(terminal.text())
        return {
            "tail_minutes": minutes,
            "tail_records_per_s": produced_per_s,
            "tail_dropped": int(reported[-1].replace(",", "")) if reported else 0,
            "tail_peak_mb": peak / 1e6,
            "tail_peak_of_first_tenth_mb": at_tenth / 1e6,
            "tail_cores": share,
        }
    finally:
        source.is_stopped.set()
        terminal.close()
        if source.ident is not None:
            source.join()


def main() -> int:
    """Measure and print the figures; returns exit code 3 if --strict was given and a goal was missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.studies.console",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="start,keys,search,tail", help="figures to measure, separated by commas")
    parser.add_argument("--repeats", type=int, default=7, help="number of starts to measure")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of about 60 key presses each")
    parser.add_argument("--records", type=int, default=10_000_000, help="number of records to search")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long a topic is followed")
    parser.add_argument("--rate", type=int, default=50_000, help="records per second produced to the followed topic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json-file", dest="json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := set(wanted) - {"start", "keys", "search", "tail"}:
        parser.error(f"--only {', '.join(sorted(unknown))}: unknown (allowed: start, keys, search, tail)")
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        target = BrokerCy(directory / "data")
        target.start()
        try:
            if "start" in wanted:
                figures |= measure_start(target, directory, given.repeats)
            if "search" in wanted:
                figures |= measure_search(target, directory, given.records, given.seed)
            if "tail" in wanted:
                figures |= measure_tail(target, directory, given.minutes, given.rate)
            if "keys" in wanted:
                figures |= measure_keys(target, directory, given.rounds, given.seed)
        finally:
            target.stop()
    is_missed = False
    for figure, value in figures.items():
        reach = REACH.get(figure)
        missed = reach is not None and (value < reach if figure == "search_records_per_s" else value > reach)
        is_missed |= missed
        print(
            f"{figure:>28} {value:14,.3f}"
            + ("" if reach is None else f"   {'missed' if missed else 'reached'}: {reach:,g}")
        )
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 3 if given.strict and is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
