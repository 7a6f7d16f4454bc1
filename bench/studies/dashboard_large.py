"""The dashboard of a large cluster, for `bench.studies.dashboard`: 15,000 topics, 200,000 partitions, 15,000 groups.

The pages of topics and groups are scrolled, sorted and filtered in a browser. A PerformanceObserver reports the long
tasks (those of more than 50 ms in the page's thread) after the page has loaded; meanwhile a probe requests /healthz
continuously, and its longest wait is the time for which the dashboard's event loop was blocked for other viewers.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from bench.launch.dashboard import Dashboard
from bench.measuring import proc
from bench.studies.dashboard_browser import Tab
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.launch.processes import ProcessError

# Topics that one request creates; a request must end within the client's time limit.
TOPICS_A_CALL = 100
COMMITS_AT_ONCE = 32
PROGRESS_S = 10.0
PROBE_INTERVAL_S = 0.01
PROBE_TIMEOUT_S = 30.0
SCROLLS, SCROLL_PX, SCROLL_PAUSE_MS = 40, 900, 50
# The lists are read again every 5 s: within this time several refreshes happen without user input.
REST_MS = 12_000
LONG_TASK_MS = 200

# Notes the long tasks, also those before this script (buffered).
TASKS_SCRIPT = """
(() => {
  window.benchTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.benchTasks.push([entry.startTime, entry.duration]);
  }).observe({ type: "longtask", buffered: true });
})();
"""
# Runs a user's action, and returns the ms until `shows` is true for the panel's count and first row, and is painted.
_TOOK = """
([kind, argument, pattern]) => new Promise((done, failed) => {
  const wanted = new RegExp(pattern);
  const begun = performance.now();
  const timer = setInterval(() => {
    if (performance.now() - begun < 60000) return;
    clearInterval(timer);
    failed(new Error(`${kind} ${argument}: not shown within 60 s`));
  }, 1000);
  const text = () => {
    const count = document.querySelector(".panel-count")?.textContent || "";
    const number = (row) => Number(row.getAttribute("row-index"));
    const [first] = [...document.querySelectorAll(".ag-row")].sort((one, other) => number(one) - number(other));
    return `${count} | ${first === undefined ? "" : first.textContent}`;
  };
  const look = () => {
    if (!wanted.test(text())) { requestAnimationFrame(look); return; }
    clearInterval(timer);
    requestAnimationFrame(() => done(performance.now() - begun));
  };
  if (kind === "filter") {
    const input = document.querySelector(".panel-filter input");
    input.value = argument;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  } else {
    document.querySelector(`.ag-header-cell[col-id="${argument}"] .ag-header-cell-label`).click();
  }
  requestAnimationFrame(look);
})
"""


async def fill(bootstrap: str, topics: int, partitions: int, groups: int) -> None:
    """Create the topics, over which the partitions are spread evenly, and groups with one committed offset each."""
    each, more = divmod(partitions, topics)
    told_s = time.monotonic()
    async with AdminClient(bootstrap, timeout_s=600) as client:
        for first in range(0, topics, TOPICS_A_CALL):
            numbers = range(first, min(first + TOPICS_A_CALL, topics))
            wanted = [NewTopic(f"large-{number:05}", each + (number < more), 1) for number in numbers]
            (await client.topics.create(wanted)).whole()
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                print(f"created {numbers.stop:,} of {topics:,} topics", file=sys.stderr)
        turns = asyncio.Semaphore(COMMITS_AT_ONCE)

        async def commit(number: int) -> None:
            async with turns:
                offsets = {TopicPartition(f"large-{number % topics:05}", 0): 0}
                (await client.group_offsets.alter(f"large-group-{number:05}", offsets)).whole()

        await asyncio.gather(*(commit(number) for number in range(groups)))


class Probe(threading.Thread):
    """Requests /healthz continuously; `worst_s` is the longest wait since it was set to 0. `error` ended it early."""

    def __init__(self, url: str) -> None:
        super().__init__(name="probe", daemon=True)
        place = urlsplit(url)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PROBE_TIMEOUT_S)
        self.worst_s = 0.0
        self.error: OSError | http.client.HTTPException | None = None
        self.is_stopped = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_stopped.wait(PROBE_INTERVAL_S):
                begun_s = time.perf_counter()
                self._connection.request("GET", "/healthz")
                self._connection.getresponse().read()
                self.worst_s = max(self.worst_s, time.perf_counter() - begun_s)
        except (OSError, http.client.HTTPException) as error:
            self.error = error
        finally:
            self._connection.close()


@contextmanager
def probing(url: str) -> Iterator[Probe]:
    """Run a probe. Raises ProcessError at the end if the dashboard did not answer it."""
    probe = Probe(url)
    probe.start()
    try:
        yield probe
    finally:
        probe.is_stopped.set()
        probe.join()
    if probe.error is not None:
        raise ProcessError(f"the dashboard did not answer while it was measured: {probe.error!r}")


def took_ms(tab: Tab, kind: str, argument: str, pattern: str) -> float:
    """Filter by a text or sort by a column, and return the ms until the count and the first row match `pattern`."""
    return float(tab.evaluate(_TOOK, [kind, argument, pattern]))


def scroll(tab: Tab) -> None:
    """Scroll the table down and up with the mouse wheel."""
    grid = tab.page.locator(".grid").bounding_box()
    assert grid is not None
    tab.page.mouse.move(grid["x"] + grid["width"] / 2, grid["y"] + grid["height"] / 2)
    for step in range(SCROLLS):
        tab.page.mouse.wheel(0, SCROLL_PX if step < SCROLLS / 2 else -SCROLL_PX)
        tab.page.wait_for_timeout(SCROLL_PAUSE_MS)


def measure_page(tab: Tab, url: str, name: str, subject: str, amount: int, column: str) -> dict[str, float]:
    """Open a list of `amount` rows, whose `column` is `subject` with a number; scroll, sort and filter it, and wait."""
    tab.install(TASKS_SCRIPT)
    begun_s = time.perf_counter()
    tab.open(url)
    # The broker's own topics are hidden.
    tab.wait_for(
        """(wanted) => document.querySelector('.ag-row') !== null &&
          document.querySelector('.panel-count')?.textContent.startsWith(wanted)""",
        f"{amount:,} ",
    )
    loaded_s = time.perf_counter() - begun_s
    tab.evaluate("window.benchTasks.length = 0")
    scroll(tab)
    last, first = f"{subject}{amount - 1:05}", f"{subject}{0:05}"
    if tab.evaluate(
        "(column) => !document.querySelector(`.ag-header-cell[col-id=${column}][aria-sort=ascending]`)", column
    ):
        took_ms(tab, "sort", column, re.escape(first))
    # The last row becomes the first, so that the answer cannot be confused with the previous rows.
    sorted_ms = [took_ms(tab, "sort", column, rf"\| [^|]*{re.escape(each)}") for each in (last, first, last)]
    wanted = f"{subject}{amount // 2:05}"
    filtered = [took_ms(tab, "filter", wanted, rf"^1 of {amount:,} .*{re.escape(wanted)}")]
    filtered.append(took_ms(tab, "filter", "", rf"^{amount:,} .*{re.escape(last)}"))
    tab.page.wait_for_timeout(REST_MS)
    tab.check()
    tasks: list[list[float]] = tab.evaluate("window.benchTasks")
    lasted = [duration for _, duration in tasks]
    return {
        f"large_{name}_loaded_s": loaded_s,
        f"large_{name}_sort_worst_ms": max(sorted_ms),
        f"large_{name}_filter_worst_ms": max(filtered),
        f"large_{name}_long_tasks": sum(each > LONG_TASK_MS for each in lasted),
        f"large_{name}_task_worst_ms": max(lasted, default=0.0),
    }


def measure_large(tab: Any, dashboard: Dashboard, topics: int, groups: int) -> dict[str, float]:
    """Measure both lists with tabs that `tab` opens, and the dashboard's resources for them."""
    figures: dict[str, float] = {}
    used_s, begun_s = proc.usage(dashboard.pid).cpu_s, time.perf_counter()
    with probing(dashboard.url) as probe:
        with tab() as opened:
            figures |= measure_page(opened, dashboard.page("topics"), "topics", "large-", topics, "topic")
        figures["large_topics_blocked_ms"] = probe.worst_s * 1000
        probe.worst_s = 0.0
        with tab() as opened:
            figures |= measure_page(opened, dashboard.page("groups"), "groups", "large-group-", groups, "group")
        figures["large_groups_blocked_ms"] = probe.worst_s * 1000
    took_s = time.perf_counter() - begun_s
    figures["large_cpu_percent"] = (proc.usage(dashboard.pid).cpu_s - used_s) / took_s * 100
    figures["large_mb"] = proc.resident_bytes(dashboard.pid) / 1e6
    figures["large_peak_mb"] = proc.peak_resident_bytes(dashboard.pid) / 1e6
    return figures
