"""Measure the web dashboard: `python -m bench.studies.dashboard` runs `broker-dash` for a separate broker, and a
headless Chromium.

- start: from the start of the process until it prints its address, and until it has answered the first request.
- idle: resident memory and CPU of a dashboard of one cluster without viewers (goal: 120 MB, 1 % of a core).
- paint: first contentful paint of the overview with an empty and with a filled cache of the browser (goal: 200 ms), and
  the time from the start of the navigation until the panel of health shows numbers (goal: 1 s).
- live: from the time of a sample in the broker until a figure derived from it is painted (goal: p99 250 ms); the
  same for the newest point of a chart. The clock is the machine's wall clock (bench/studies/dashboard_live.py).
- viewers: the cost of many viewers of the overview in addition to one (goal: 3 % of a core for 500, 10 % for 2,000),
  bytes per second of a viewer (goal: 4 KB/s), and skipped frames. The viewers run in another process.
- transfer: bytes of all responses to a first visit, as transferred (goal: overview 1 MB, page of topics 1.65 MB).
- heap: growth of the JavaScript heap over 50 navigations, after every page was shown once (goal: 5 MB).
- large: 15,000 topics, 200,000 partitions and 15,000 groups: long tasks of the browser above 200 ms (goal: none), the
  time for sorting and filtering, and memory of the dashboard. Creating them takes minutes.

Each part has its own dashboard. A broker with a load runs for idle, paint, live and viewers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.launch.chromium import BrowserError
from bench.launch.dashboard import CLUSTER, Dashboard
from bench.measuring import proc
from bench.studies import goals
from bench.studies.dashboard_browser import Chromium, Tab, chromium
from bench.studies.dashboard_large import fill, measure_large
from bench.studies.dashboard_live import Load, measure_live
from bench.targets.brokers import BrokerCy, raise_file_limit
from broker_cy.launch.processes import ProcessError

# Largest values of the goals; figures without an entry explain others.
REACH = {
    "idle_mb": 120.0,
    "idle_cpu_percent": 1.0,
    "paint_cold_ms": 200.0,
    "paint_warm_ms": 200.0,
    "number_cold_ms": 1_000.0,
    "number_warm_ms": 1_000.0,
    "live_p99_ms": 250.0,
    "live_chart_p99_ms": 250.0,
    "viewer_bytes_per_s": 4_000.0,
    "transfer_overview_kb": 1_000.0,
    "transfer_topics_kb": 1_650.0,
    "heap_growth_mb": 5.0,
    "large_topics_long_tasks": 0.0,
    "large_groups_long_tasks": 0.0,
}
# Percent of a core by number of viewers.
REACH_VIEWERS = ((500, 3.0), (2_000, 10.0))
PARTS = ("start", "idle", "paint", "live", "viewers", "transfer", "heap", "large")
# The time until a dashboard has read the broker's history and finished its first garbage collections.
SETTLE_S = 10.0
VIEWERS_SETTLE_S = 5.0
VIEWERS_READY_S = 180.0
# Open files: partitions, connections of viewers, and other files of a process.
FILES = 20_000

# Notes the times when the page's frame appears and when the health panel shows a number, each after the frame of the
# screen that paints it.
MARKS_SCRIPT = """
(() => {
  window.benchMarks = {};
  const painted = (name) => requestAnimationFrame(() => { const channel = new MessageChannel();
    channel.port1.onmessage = () => { window.benchMarks[name] = performance.now(); }; channel.port2.postMessage(0); });
  const wanted = {
    page: () => document.querySelector("main h1") !== null,
    number: () => [...document.querySelectorAll("#p-health dd")].some((each) => /[0-9]/.test(each.textContent)),
  };
  new MutationObserver((_, observer) => {
    for (const [name, is] of Object.entries(wanted)) if (is()) { delete wanted[name]; painted(name); }
    if (Object.keys(wanted).length === 0) observer.disconnect();
  }).observe(document, { childList: true, subtree: true, characterData: true });
})();
"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@contextlib.contextmanager
def running(directory: Path, target: BrokerCy) -> Iterator[Dashboard]:
    """Run a dashboard of the target, with a new state."""
    host, port = target.address
    with tempfile.TemporaryDirectory(dir=directory) as name:
        dashboard = Dashboard(Path(name), f"{host}:{port}").start()
        try:
            yield dashboard
            dashboard.stop()
        finally:
            dashboard.kill()


def measure_start(directory: Path, target: BrokerCy, repeats: int) -> dict[str, float]:
    """Measure `repeats` starts; one more, before them, fills the page cache."""
    ready: list[float] = []
    answered: list[float] = []
    for _ in range(repeats + 1):
        with running(directory, target) as dashboard:
            begun_s = time.perf_counter()
            with urllib.request.urlopen(dashboard.page("overview"), timeout=60) as response:
                response.read()
            ready.append(dashboard.ready_s)
            answered.append(dashboard.ready_s + time.perf_counter() - begun_s)
    return {
        "start_s": statistics.median(ready[1:]),
        "start_worst_s": max(ready[1:]),
        "start_answer_s": statistics.median(answered[1:]),
    }


def cpu_percent(pid: int, seconds: float) -> float:
    """Return the share of a core that a process uses within `seconds` from now, in percent."""
    used_s, begun_s = proc.usage(pid).cpu_s, time.perf_counter()
    time.sleep(seconds)
    return (proc.usage(pid).cpu_s - used_s) / (time.perf_counter() - begun_s) * 100


def measure_idle(directory: Path, target: BrokerCy, seconds: float) -> dict[str, float]:
    with running(directory, target) as dashboard:
        time.sleep(SETTLE_S)
        percent = cpu_percent(dashboard.pid, seconds)
        return {"idle_mb": proc.resident_bytes(dashboard.pid) / 1e6, "idle_cpu_percent": percent}


def measure_paint(browser: Chromium, directory: Path, target: BrokerCy, repeats: int) -> dict[str, float]:
    """Visit the overview `repeats` times with an empty cache, and each time again with a filled one."""
    figures: dict[str, float] = {}
    found: dict[str, list[float]] = {}
    with running(directory, target) as dashboard:
        for number in range(repeats + 1):
            with browser.tab() as tab:
                tab.install(MARKS_SCRIPT)
                for cache in ("cold", "warm"):
                    # The first visitor of a dashboard: it compresses its assets and requests data from the cluster.
                    kind = cache if number else f"first_visit_{cache}"
                    for name, value in _visit(tab, dashboard.page("overview")).items():
                        found.setdefault(f"{name}_{kind}_ms", []).append(value)
    for name, values in found.items():
        figures[name] = statistics.median(values)
        if len(values) > 1:
            figures[name.replace("_ms", "_worst_ms")] = max(values)
    return figures


def _visit(tab: Tab, url: str) -> dict[str, float]:
    """Return the ms from the start of the navigation to the first contentful paint, which is a text that the page is
    loading; to the frame of the page; and to the first live number.
    """
    tab.open(url)
    tab.wait_for("() => window.benchMarks.number !== undefined")
    marks = tab.evaluate("window.benchMarks")
    return {"paint": float(tab.evaluate(_PAINT)), "page": float(marks["page"]), "number": float(marks["number"])}


def measure_transfer(browser: Chromium, directory: Path, target: BrokerCy) -> dict[str, float]:
    """Return the kilobytes of a first visit to two pages, each with an empty cache."""
    figures = {}
    with running(directory, target) as dashboard:
        for page in ("overview", "topics"):
            with browser.tab() as tab:
                tab.open(dashboard.page(page))
                tab.page.wait_for_load_state("networkidle")
                figures[f"transfer_{page}_kb"] = tab.received_bytes / 1e3
    return figures


def measure_heap(browser: Chromium, directory: Path, target: BrokerCy, navigations: int) -> dict[str, float]:
    """Open all pages of the navigation in turn, without reloading, and compare the heap on the overview."""
    with running(directory, target) as dashboard, browser.tab() as tab:
        tab.open(dashboard.page("overview"))
        amount = tab.page.locator(".nav-link").count()

        def go(number: int) -> None:
            link = tab.page.locator(".nav-link").nth(number % amount)
            title = link.inner_text()
            link.click()
            tab.wait_for("(title) => document.querySelector('main h1')?.textContent === title", title)
            tab.settle()

        for number in range(amount + 1):
            go(number)
        before = tab.metrics()
        for number in range(navigations - 1):
            go(number + 1)
        go(0)
        after = tab.metrics()
    return {
        "heap_navigations": navigations,
        "heap_mb": after["JSHeapUsedSize"] / 1e6,
        "heap_growth_mb": (after["JSHeapUsedSize"] - before["JSHeapUsedSize"]) / 1e6,
        "heap_nodes_growth": after["Nodes"] - before["Nodes"],
        "heap_listeners_growth": after["JSEventListeners"] - before["JSEventListeners"],
        "heap_documents_growth": after["Documents"] - before["Documents"],
    }


@contextlib.contextmanager
def viewing(dashboard: Dashboard, subscriptions: Sequence[dict[str, Any]], amount: int) -> Iterator[Callable[[], Any]]:
    """Run `amount` viewers in another process. The yielded function ends them and returns their counts."""
    argv = [sys.executable, "-m", "bench.studies.dashboard_viewers", dashboard.url, CLUSTER, str(amount)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(subscriptions) + "\n")
        process.stdin.flush()
        ready = json.loads(process.stdout.readline() or "{}")
        if ready.get("connected") != amount:
            raise ProcessError(f"of {amount} viewers {ready.get('connected', 0)} are connected")

        def end() -> Any:
            return json.loads(process.communicate(timeout=VIEWERS_READY_S)[0])

        yield end
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def measure_viewers(
    dashboard: Dashboard, subscriptions: Sequence[dict[str, Any]], viewers: int, seconds: float
) -> dict[str, float]:
    """Compare the dashboard's CPU with one viewer and with `viewers`, each for `seconds`."""
    percents = {}
    for amount in (1, viewers):
        with viewing(dashboard, subscriptions, amount) as end:
            # By now the whole first frames are sent and processed.
            time.sleep(VIEWERS_SETTLE_S)
            percents[amount] = cpu_percent(dashboard.pid, seconds)
            counted = end()
        if counted["lost"] or counted["refused"]:
            raise ProcessError(f"viewers lost their connection, or were refused: {counted}")
    each_s = counted["seconds"] * viewers
    return {
        "viewers": viewers,
        "viewers_cpu_percent": percents[viewers] - percents[1],
        "viewers_one_cpu_percent": percents[1],
        "viewer_bytes_per_s": counted["wire_bytes"] / each_s,
        "viewer_messages_per_s": counted["messages"] / each_s,
        "viewers_dropped": counted["dropped"],
        "viewers_dashboard_mb": proc.resident_bytes(dashboard.pid) / 1e6,
    }


def measure_with_load(given: argparse.Namespace, directory: Path, target: BrokerCy) -> dict[str, float]:
    """Measure the parts that need a loaded broker."""
    figures: dict[str, float] = {}
    bootstrap = f"{target.address[0]}:{target.address[1]}"
    load = Load(bootstrap, given.seed)
    load.begin()
    try:
        if "idle" in given.only:
            figures |= measure_idle(directory, target, given.seconds)
        if "paint" in given.only:
            with chromium() as browser:
                figures |= measure_paint(browser, directory, target, given.repeats)
        if "live" in given.only:
            with running(directory, target) as dashboard, chromium() as browser, browser.tab() as tab:
                figures |= measure_live(tab, dashboard.page("overview"), load, given.samples)
        if "viewers" in given.only:
            with running(directory, target) as dashboard:
                # A browser reports the channels of a viewer of the page; it must not run during the measurement.
                with chromium() as browser, browser.tab() as tab:
                    tab.open(dashboard.page("overview"))
                    subscriptions = tab.subscriptions()
                figures |= measure_viewers(dashboard, subscriptions, given.viewers, given.seconds)
    finally:
        load.end()
    return figures


def measure(given: argparse.Namespace, directory: Path) -> dict[str, float]:
    """Measure the parts in `given.only`."""
    figures: dict[str, float] = {}
    target = BrokerCy(directory / "data")
    with target.running():
        if "start" in given.only:
            figures |= measure_start(directory, target, given.repeats)
        if {"transfer", "heap"} & set(given.only):
            with chromium() as browser:
                if "transfer" in given.only:
                    figures |= measure_transfer(browser, directory, target)
                if "heap" in given.only:
                    figures |= measure_heap(browser, directory, target, given.navigations)
        if {"idle", "paint", "live", "viewers"} & set(given.only):
            figures |= measure_with_load(given, directory, target)
    if "large" in given.only:
        figures |= _large(given, directory)
    return figures


def _large(given: argparse.Namespace, directory: Path) -> dict[str, float]:
    raise_file_limit(given.partitions * 5)
    target = BrokerCy(directory / "large")
    with target.running():
        begun_s = time.perf_counter()
        asyncio.run(fill(f"{target.address[0]}:{target.address[1]}", given.topics, given.partitions, given.groups))
        figures = {
            "large_partitions": given.partitions,
            "large_filled_s": time.perf_counter() - begun_s,
        }
        with running(directory, target) as dashboard, chromium() as browser:
            return figures | measure_large(browser.tab, dashboard, given.topics, given.groups)


def reach_of(figure: str, viewers: int) -> float | None:
    """Return the goal of a figure; None if it has none. The CPU goal depends on the number of viewers."""
    if figure == "viewers_cpu_percent":
        return next((percent for most, percent in REACH_VIEWERS if viewers <= most), REACH_VIEWERS[-1][1])
    return REACH.get(figure)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = goals.parser("bench.studies.dashboard", __doc__, PARTS)
    parser.add_argument("--repeats", type=int, default=10, help="starts, and visits with each cache")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long CPU is measured, idle and with viewers")
    parser.add_argument("--samples", type=int, default=120, help="seconds, and so samples, of live")
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--navigations", type=int, default=50)
    parser.add_argument("--topics", type=int, default=15_000, help="topics of large")
    parser.add_argument("--partitions", type=int, default=200_000, help="partitions of large, over all topics")
    parser.add_argument("--groups", type=int, default=15_000, help="groups of large")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    goals.check(parser, given, PARTS, ("repeats", "samples", "viewers", "navigations", "topics", "groups"))
    if given.seconds <= 0:
        parser.error(f"--seconds {given.seconds:g}: a number above 0 is expected")
    if given.partitions < given.topics:
        parser.error(f"--partitions {given.partitions}: at least one for each of {given.topics} topics is expected")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the figures.

    Returns 1 if something is missing or failed, 3 if --strict was given and a goal was missed.
    """
    given = arguments(argv)
    raise_file_limit(FILES)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-dashboard-") as name:
            figures = measure(given, Path(name))
    except (BrowserError, ProcessError) as error:
        print(f"bench.studies.dashboard: {error}", file=sys.stderr)
        return 1
    is_missed = False
    for figure, value in figures.items():
        reach = reach_of(figure, given.viewers)
        missed = reach is not None and value > reach
        is_missed |= missed
        goal = "" if reach is None else f"   {'missed' if missed else 'reached'}: {reach:,g}"
        print(f"{figure:>28} {value:14,.3f}{goal}")
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 3 if given.strict and is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
