"""The time from a sample in the broker to its pixels in a browser, for `bench.studies.dashboard`.

A load produces a different amount in each second, so that the rate of its topic in the panel "Busiest topics" changes
with every sample. A separate client (in a thread with its own event loop) follows `__broker_metrics`, computes the same
text from the same samples, and notes when it received each. In the page a MutationObserver notes when the text appears,
after the next frame of the screen; Plotly's event after drawing notes when the newest point of a chart is drawn.

All times are those of one clock, the wall clock of this machine: `time_ms` of a sample (the broker reads it before it
counts), `time.time()` here, and `Date.now()` in the page.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from bench.studies.console_terminal import percentile
from bench.studies.dashboard_browser import Tab
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.console.figures import RATE_MS, busiest, newest_of
from broker_cy.console.history import Samples
from broker_cy.metrics.sample import Sample
from broker_cy.reporting.numbers import size
from broker_cy.wire.records import Record

TOPIC = "bench-live"
# Additional topics, so that the panels of the overview show as much as those of a real cluster.
OTHER_TOPICS = 9
RECORD_BYTES = 100
PRODUCE_INTERVAL_S = 0.1
# Bytes per second that are produced to TOPIC: any amount up to this.
MOST_BYTES_PER_S = 400_000
OTHER_BYTES_PER_S = 20_000
START_TIMEOUT_S = 30.0
# A sample that has not reached the page after this long is lost; so is one that later samples have overtaken.
LOST_MS = 5_000
LOOK_INTERVAL_MS = 100

# Notes when each text of the topic's rate appears, and when each newest point of a chart is drawn.
WATCH_SCRIPT = """
(() => {
  const found = { texts: [], points: [] };
  window.benchLive = found;
  let last = "";
  // After the frame in which a change is painted.
  const painted = (note) => requestAnimationFrame(() => { const channel = new MessageChannel();
    channel.port1.onmessage = () => note(Date.now()); channel.port2.postMessage(0); });
  const look = () => {
    for (const row of document.querySelectorAll("#p-busiest-topics tbody tr")) {
      const cells = [...row.cells].map((cell) => cell.textContent);
      if (cells[0] === TOPIC && cells[2] !== last) {
        last = cells[2];
        const text = last;
        painted((at) => found.texts.push([at, text]));
      }
    }
  };
  const charts = new WeakSet();
  const listen = () => {
    const place = document.querySelector("#p-throughput .chart");
    if (place === null || place.on === undefined || charts.has(place)) return;
    charts.add(place);
    let newest = 0;
    place.on("plotly_afterplot", () => {
      // Texts of a clock that shows UTC.
      const at = Date.parse(`${(place.data[0]?.x || []).at(-1)}Z`);
      if (at > newest) { newest = at; painted((seen) => found.points.push([seen, at])); }
    });
  };
  new MutationObserver(() => { look(); listen(); })
    .observe(document, { childList: true, subtree: true, characterData: true });
})();
"""


class Received(NamedTuple):
    """A sample: the time at which the separate client received it (wall clock, ms), its own time, and the text of the
    resulting rate.
    """

    at_ms: float
    time_ms: int
    text: str


class _Noted(Samples):
    """Notes when each sample is received."""

    def __init__(self, client: AdminClient) -> None:
        super().__init__(client)
        self.received: list[Received] = []

    def take(self, item: Sample) -> None:
        super().take(item)
        rows = {row.name: row for row in busiest(newest_of(list(self.items)))}
        text = size(rows[TOPIC].in_per_s) if TOPIC in rows else ""
        self.received.append(Received(time.time() * 1000, item.time_ms, text))


class Load(threading.Thread):
    """Produces to some topics until it is stopped, and notes the broker's samples meanwhile."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self._cluster = bootstrap
        self._random = random.Random(seed)
        self._is_ready = threading.Event()
        self._is_stopped = threading.Event()
        self._error: BaseException | None = None
        self.received: Sequence[Received] = ()

    def run(self) -> None:
        try:
            asyncio.run(self._produce())
        except BaseException as error:
            self._error = error
            self._is_ready.set()

    def begin(self) -> None:
        """Start, and wait until the topics exist. Raises RuntimeError."""
        self.start()
        if not self._is_ready.wait(START_TIMEOUT_S) or self._error is not None:
            raise RuntimeError(f"the load did not start: {self._error!r}")

    def end(self) -> None:
        """Stop, and raise RuntimeError if producing failed meanwhile: otherwise its figures would be those of an idle
        broker.
        """
        self._is_stopped.set()
        self.join()
        if self._error is not None:
            raise RuntimeError(f"the load failed: {self._error!r}") from self._error

    async def _produce(self) -> None:
        names = [TOPIC, *(f"bench-other-{number}" for number in range(OTHER_TOPICS))]
        async with AdminClient(self._cluster, timeout_s=60) as client:
            known = {each.name for each in await client.topics.list_all()}
            missing = [NewTopic(name, 1, 1) for name in names if name not in known]
            if missing:
                (await client.topics.create(missing)).whole()
            samples = _Noted(client)
            samples.start()
            self.received = samples.received
            producer = client.records.producer()
            value = bytes(RECORD_BYTES)
            due_s = time.perf_counter()
            try:
                while not self._is_stopped.is_set():
                    for name in names:
                        most = MOST_BYTES_PER_S if name == TOPIC else OTHER_BYTES_PER_S
                        records = max(1, round(self._random.randrange(most) * PRODUCE_INTERVAL_S / RECORD_BYTES))
                        now_ms = int(time.time() * 1000)
                        batch = [Record(timestamp=now_ms, value=value)] * records
                        await producer.send_batch(TopicPartition(name, 0), batch)
                    self._is_ready.set()
                    due_s += PRODUCE_INTERVAL_S
                    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            finally:
                await samples.close()


@dataclass(frozen=True, slots=True)
class Delays:
    """Milliseconds of each sample. `lost` samples did not reach the page within LOST_MS."""

    client_ms: list[float]
    page_ms: list[float]
    chart_ms: list[float]
    lost: int


def delays(
    received: Sequence[Received], texts: Sequence[tuple[float, str]], points: Sequence[tuple[float, float]]
) -> Delays:
    """Match samples with the texts of the page. A sample with the same text as the previous one changes no pixel."""
    client_ms: list[float] = []
    page_ms: list[float] = []
    chart_ms: list[float] = []
    lost = 0
    for before, each in pairwise(received):
        if each.text == before.text:
            continue
        client_ms.append(each.at_ms - each.time_ms)
        seen = next((at for at, text in texts if text == each.text and 0 <= at - each.time_ms <= LOST_MS), None)
        if seen is None:
            lost += 1
        else:
            page_ms.append(seen - each.time_ms)
        # A point has the time of its start: the sample is drawn with the first point that does not begin before it.
        drawn = next((at for at, newest in points if newest >= each.time_ms - each.time_ms % 1_000), None)
        if drawn is not None and 0 <= drawn - each.time_ms <= LOST_MS:
            chart_ms.append(drawn - each.time_ms)
    return Delays(client_ms, page_ms, chart_ms, lost)


class Seen(NamedTuple):
    """The samples, and what the page has shown of them: the times of texts, and those of the newest points."""

    received: Sequence[Received]
    texts: Sequence[tuple[float, str]]
    points: Sequence[tuple[float, float]]

    def between(self, begun_ms: float, ended_ms: float) -> Delays:
        """The delays of the samples of this time."""
        found = [each for each in self.received if begun_ms <= each.time_ms <= ended_ms]
        return delays(found, self.texts, self.points)

    def has_after(self, ended_ms: float) -> bool:
        """Whether the page shows a later sample: then none of before is still in transit."""
        later = {each.text: each.time_ms for each in self.received if each.time_ms > ended_ms}
        is_text_shown = any(text in later and at >= later[text] for at, text in self.texts)
        return is_text_shown and any(newest > ended_ms for _, newest in self.points)


def watched(look: Callable[[], Seen], wait: Callable[[], None], now_ms: Callable[[], float], begun_ms: float) -> Delays:
    """The delays of the samples from `begun_ms` on, once the page has shown one of them and then a later one. A machine
    that is busy with other programs shows few; those of LOST_MS are all.
    """
    ended_ms, latest_ms = now_ms(), now_ms() + LOST_MS
    while True:
        seen = look()
        found = seen.between(begun_ms, ended_ms)
        is_shown = bool(found.page_ms and found.chart_ms)
        if now_ms() >= latest_ms or (is_shown and seen.has_after(ended_ms)):
            return found
        if not is_shown:
            ended_ms = now_ms()
        wait()


def measure_live(tab: Tab, url: str, load: Load, seconds: float) -> dict[str, float]:
    """Watch the overview at `url` for `seconds` while `load` runs; longer until a sample has reached the page."""
    tab.install(WATCH_SCRIPT.replace("TOPIC", repr(TOPIC)))
    tab.open(url)
    # After ten samples, both programs compute rates over the whole window.
    tab.wait_for("(least) => window.benchLive.texts.length >= least", RATE_MS // 1000)
    begun_ms = time.time() * 1000
    tab.page.wait_for_timeout(seconds * 1000)

    def look() -> Seen:
        tab.check()
        found: dict[str, Any] = tab.evaluate("window.benchLive")
        return Seen(list(load.received), found["texts"], found["points"])

    result = watched(look, lambda: tab.page.wait_for_timeout(LOOK_INTERVAL_MS), lambda: time.time() * 1000, begun_ms)
    if not result.page_ms or not result.chart_ms:
        raise RuntimeError(f"no sample reached the page in {LOST_MS} ms: {result}")
    figures: dict[str, float] = {"live_samples": len(result.page_ms), "live_lost": result.lost}
    for name, values in (("live", result.page_ms), ("live_chart", result.chart_ms), ("live_client", result.client_ms)):
        figures |= {
            f"{name}_p50_ms": percentile(values, 0.5),
            f"{name}_p99_ms": percentile(values, 0.99),
            f"{name}_worst_ms": max(values),
        }
    return figures
