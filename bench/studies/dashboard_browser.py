"""A headless Chromium for `bench.studies.dashboard`, driven by Playwright, and the measurements of its pages.

Every tab has its own browser context, and therefore an empty cache. Scripts of a measurement run before the first
script of the page (`Tab.install`). The time zone is UTC, so that the charts' times are those of the samples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bench.launch.chromium import BrowserError, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

WAIT_MS = 60_000
WIDTH, HEIGHT = 1280, 900
# Panels that have an answer; the others are loading, stale, or show an error.
_SETTLED = """() => {
  const states = [...document.querySelectorAll("[data-panel] [data-state]")].map((each) => each.dataset.state);
  // A page that is not configured has a text in place of its panels.
  const isShown = states.length > 0 || document.querySelector("p.panel[role=status]") !== null;
  return isShown && states.every((each) => ["ok", "empty", "absent"].includes(each));
}"""


class Tab:
    """A tab in its own context. `received_bytes` is the transferred size of all responses with their headers."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.received_bytes = 0
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self._devtools = context.new_cdp_session(self.page)
        self._devtools.on("Network.loadingFinished", self._received)
        self._devtools.send("Network.enable")
        self._devtools.send("Performance.enable")

    def _received(self, event: dict[str, Any]) -> None:
        self.received_bytes += int(event["encodedDataLength"])

    def install(self, script: str) -> None:
        """Run `script` in every page that this tab loads from now on, before the page's own."""
        self.page.add_init_script(script)

    def open(self, url: str) -> None:
        """Load a page and wait until every panel has an answer. Raises BrowserError."""
        self.page.goto(url)
        self.settle()

    def settle(self) -> None:
        """Wait until every panel of the page has an answer. Raises BrowserError."""
        from playwright.sync_api import TimeoutError as TooLate

        try:
            self.page.wait_for_function(_SETTLED)
        except TooLate:
            states = self.page.evaluate(
                """() => [...document.querySelectorAll("[data-panel]")].map((panel) =>
                  `${JSON.parse(panel.dataset.panel).title}: ${panel.querySelector("[data-state]").textContent}`)"""
            )
            problems = f"; the page reports {self.problems[0]}" if self.problems else ""
            raise BrowserError(f"{self.page.url}: not every panel has an answer: {states}{problems}") from None
        self.check()

    def check(self) -> None:
        """Raise BrowserError if a script of the page failed: its figures would be those of a broken page."""
        if self.problems:
            raise BrowserError(f"{self.page.url}: {self.problems[0]}")

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def wait_for(self, script: str, argument: Any = None) -> None:
        """Wait until a function of the page returns true; it is called once for each frame of the screen."""
        self.page.wait_for_function(script, arg=argument)

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return channel and parameters of each panel of the page."""
        found: list[dict[str, Any]] = self.evaluate(
            """() => [...document.querySelectorAll("[data-panel]")].map((panel) => {
              const { channel, params } = JSON.parse(panel.dataset.panel);
              return { channel, params };
            })"""
        )
        return found

    def metrics(self) -> dict[str, float]:
        """Collect garbage, and return the metrics of Chromium (JSHeapUsedSize, Nodes, JSEventListeners, ...)."""
        # The second collection frees the objects that finalizers release.
        for _ in range(2):
            self._devtools.send("HeapProfiler.collectGarbage")
        return {each["name"]: each["value"] for each in self._devtools.send("Performance.getMetrics")["metrics"]}

    def close(self) -> None:
        self.context.close()


class Chromium:
    """A running browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @contextlib.contextmanager
    def tab(self) -> Iterator[Tab]:
        """Open a tab with an empty cache, and close it at the end."""
        context = self._browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, timezone_id="UTC", locale="en-US", color_scheme="light"
        )
        try:
            yield Tab(context)
        finally:
            context.close()


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """Run a headless Chromium, as `launched` does. Raises BrowserError."""
    with launched() as browser:
        yield Chromium(browser)
