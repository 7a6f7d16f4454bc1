"""A browser tab on the dashboard, which records all problems."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any
from urllib.parse import urlencode, urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import BrowserContext, Locator, Page, Request

# Long enough for a busy machine.
WAIT_MS = 90_000
# The pause between two checks for violations, and the number of checks and the time before a violation counts.
AXE_PAUSE_MS = 200
ATTEMPTS_MIN = 10
AXE_S = 30.0
_AXE = Axe()
CLUSTER = "main"
# States of panels that have a response. Other states: loading, error, stale.
SETTLED = ("ok", "empty", "absent")


def run_async(job: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a separate thread: Playwright's loop occupies the tests' thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, job).result()


class Tab:
    """`problems`: console messages, exceptions, failed requests, requests to other hosts. Those of `expected` are
    removed by the test that causes them.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url.rstrip("/")
        self.problems: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", lambda message: self.problems.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._requested)
        self.page.on(
            "response",
            lambda answer: self.problems.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None,
        )

    def _failed(self, request: Request) -> None:
        # A page cancels its pending requests when the tab leaves it.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def _requested(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != urlsplit(self.url).netloc:
            self.problems.append(f"foreign: {request.url}")

    def open(self, page: str, **query: str) -> None:
        """Open a page of the dashboard and wait until it is shown."""
        text = f"?{urlencode(query)}" if query else ""
        self.page.goto(f"{self.url}/c/{CLUSTER}/{page}{text}")
        self.page.wait_for_selector("main h1")

    def settled(self) -> dict[str, str]:
        """Wait until every panel has an answer; return the state of each by its title."""
        self.page.wait_for_function(
            """(settled) => {
              const states = [...document.querySelectorAll("[data-panel] [data-state]")];
              // A table draws its columns when it knows its width.
              const grids = [...document.querySelectorAll("[data-body]:not([hidden]) .grid")];
              return states.every((each) => settled.includes(each.dataset.state))
                && grids.every((each) => each.querySelector("[role=columnheader]"));
            }""",
            arg=SETTLED,
        )
        found: dict[str, str] = self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("[data-panel]")].map((panel) =>
              [JSON.parse(panel.dataset.panel).title, panel.querySelector("[data-state]").dataset.state]))"""
        )
        return found

    def panel(self, title: str) -> Locator:
        return self.page.locator("section.panel").filter(has=self.page.get_by_role("heading", name=title, exact=True))

    def act(
        self, label: str, values: dict[str, str] | None = None, *, typed: str | None = None, panel: str | None = None
    ) -> str:
        """Press the button of an act (within `panel` if several have it), fill in its form, and confirm its plan;
        return the command line that it showed.
        """
        place: Page | Locator = self.page if panel is None else self.panel(panel)
        place.get_by_role("button", name=label, exact=True).first.click()
        dialog = self.page.locator("dialog.dialog")
        dialog.wait_for()
        if values is not None:
            for name, text in values.items():
                field = dialog.locator(f"[name='{name}']")
                if field.evaluate("(each) => each.tagName") == "SELECT":
                    field.select_option(text)
                else:
                    field.fill(text)
            dialog.locator("button[type=submit]").click()
        dialog.locator(".affected").wait_for()
        command = dialog.locator(".command code").inner_text()
        if typed is not None:
            dialog.locator("#typed").fill(typed)
        dialog.locator(".dialog-buttons button").last.click()
        dialog.wait_for(state="hidden")
        return command

    def toast(self) -> str:
        """Return the newest message of an act."""
        return self.page.locator(".toast").last.inner_text()

    def violations(self) -> list[str]:
        """Return the accessibility violations that axe finds, and still finds when everything is drawn.

        A table adds and removes columns while its panel gets its width, and draws them again when it gets its rows.
        """
        deadline_s = time.monotonic() + AXE_S
        for attempt in count(1):
            self.settled()
            found: Any = _AXE.run(self.page).response["violations"]
            # On a busy machine one attempt may take half of that time.
            if not found or (attempt >= ATTEMPTS_MIN and time.monotonic() > deadline_s):
                break
            self.page.wait_for_timeout(AXE_PAUSE_MS)
        return [
            f"{each['id']}: {each['help']}: {node['target']} {node['failureSummary']} {node['html'][:500]}"
            for each in found
            for node in each["nodes"][:3]
        ]

    def overflows(self) -> bool:
        """Whether the page is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1"))

    def close(self) -> None:
        self.context.close()
        assert self.problems == []
