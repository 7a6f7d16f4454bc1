"""Take the pictures of docs/dashboard.md from a running demo: `python -m tools.dashboard_pictures [--page NAME ...]`.

Takes about seven minutes: the demo's groups need a history. Pages about schemas have a separate demo with a registry,
those about applications one with an application on Spark, and so have pages about several nodes: there replicas are
moved, and then a node is killed. Console messages of the browser end the program with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from bench.launch.chromium import BrowserError, launched
from bench.launch.nodes import free_ports
from broker_cy.client.clusters import REGISTRY_VARIABLE
from dashboard.pages.registry import PAGES
from demo.topics import APPLICATION, PACKAGES, SLOW
from tools.demo_on_spark import ON_SPARK, running_on_spark
from tools.demo_schemas import SUBJECT, running_registry

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = {"width": 1280, "height": 860}
QUALITY = 72
WAIT_MS = 60_000
STOP_S = 30.0
STREAM_ON_SPARK = "stream-on-spark"
# The subject of each page that has one.
QUERIES = {
    "topic": f"topic={PACKAGES}",
    "topic-settings": f"topic={PACKAGES}",
    "records": f"topic={PACKAGES}",
    "producers": f"topic={PACKAGES}",
    "group": f"group={SLOW.group_id}",
    "group-settings": f"group={SLOW.group_id}",
    "broker": "broker=1",
    "broker-settings": "broker=1",
    "stream": f"application={APPLICATION}",
    STREAM_ON_SPARK: f"application={ON_SPARK}",
    "schema": f"subject={SUBJECT}&version=3&against=2",
}
# Pages about features of several nodes. The first one is taken while replicas move.
MOVES = "reassignments"
OF_NODES = (MOVES, "brokers", "broker", "quorum", "events")
NODES = ["--nodes", "4", "--kill-every", "45", "--restart-after", "3600"]
DRAINED = "4"
OF_REGISTRY = ("schemas", "schema")
# Pages about applications: the demo's own one, and another one on Spark.
OF_STREAMS = ("streams", "stream")
# Pages with another path than their name: that of one rebalance is opened from the list of all.
PATHS = {"rebalance": "rebalances", STREAM_ON_SPARK: "stream"}
# Pages without a picture: the demo has no authorizer, no logins, no quotas and no mirror.
EMPTY = ("acls", "denied-requests", "scram-users", "delegation-tokens", "quotas", "mirrors", "mirror")
SETTLED = """() => {
  const states = [...document.querySelectorAll("[data-panel] [data-state]")];
  return states.every((each) => ["ok", "empty", "absent"].includes(each.dataset.state));
}"""


class Demo:
    """A running demo."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = self.said(r"In a browser: (\S+)")

    def said(self, pattern: str) -> str:
        """Wait until its output matches `pattern`, and return the first group."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := re.search(pattern, line):
                return match[1]
        raise SystemExit("the demo ended")


@contextmanager
def running_demo(
    options: Sequence[str] = (), listener: str = "127.0.0.1:0", more: Mapping[str, str] | None = None
) -> Iterator[Demo]:
    command = [sys.executable, "-m", "demo", "--listener", listener, "--metrics", "", "--dashboard", "127.0.0.1:0"]
    environment = {**os.environ, **(more or {})}
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield Demo(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def take(browser: Browser, url: str, names: Sequence[str]) -> list[str]:
    """Take the pictures, and return the browser's messages and errors."""
    problems: list[str] = []
    for theme in ("light", "dark"):
        context = browser.new_context(viewport=SIZE, color_scheme=theme, timezone_id="UTC")  # type: ignore[arg-type]
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.set_default_timeout(WAIT_MS)
        page.goto(url)
        page.wait_for_url("**/overview")
        base = page.url.removesuffix("/overview")
        for name in names:
            query = QUERIES.get(name, "")
            page.goto(f"{base}/{PATHS.get(name, name)}" + (f"?{query}" if query else ""))
            page.wait_for_selector("main h1")
            if name == "rebalance":
                page.locator(".ag-row a").first.click()
                page.wait_for_url("**/rebalance?*")
                # A chart under the pointer shows its buttons.
                page.mouse.move(0, 0)
            page.wait_for_function(SETTLED)
            # Charts are drawn in the frame after their data, and tables when their library is loaded.
            page.wait_for_timeout(2_500)
            path = PICTURES / f"dash-{name}-{theme}.jpg"
            page.screenshot(path=path, type="jpeg", quality=QUALITY)
            print(path, flush=True)
        context.close()
    return problems


def act(page: Page, label: str, values: Mapping[str, str]) -> None:
    """Execute an act of the page that is shown."""
    page.get_by_role("button", name=label, exact=True).click()
    dialog = page.locator("dialog.dialog")
    for name, text in values.items():
        dialog.locator(f"[name='{name}']").fill(text)
    if values:
        dialog.locator("button[type=submit]").click()
    dialog.locator(".affected").wait_for()
    dialog.locator(".dialog-buttons button").last.click()
    dialog.wait_for(state="hidden")


def take_of_nodes(browser: Browser, demo: Demo, names: Sequence[str]) -> list[str]:
    """Take the pictures of pages about several nodes, and return the browser's messages and errors."""
    problems: list[str] = []
    if MOVES in names:
        page = browser.new_page()
        page.goto(demo.url)
        page.wait_for_url("**/overview")
        base = page.url.removesuffix("/overview")
        page.goto(f"{base}/broker?broker={DRAINED}")
        act(page, "Drain", {"concurrent": "4", "throttle": "10k"})
        page.goto(f"{base}/{MOVES}")
        page.locator(".ag-row").first.wait_for()
        time.sleep(15)
        problems += take(browser, demo.url, [MOVES])
        act(page, "Stop", {})
        page.goto(f"{base}/broker?broker={DRAINED}")
        act(page, "Uncordon", {})
        page.close()
    others = [name for name in names if name != MOVES]
    if others:
        demo.said(r"(node-\d) was killed")
        time.sleep(15)
        problems += take(browser, demo.url, others)
    return problems


def take_of_registry(browser: Browser, names: Sequence[str]) -> list[str]:
    """Take the pictures of pages about schemas, and return the browser's messages and errors."""
    broker, registry = (f"127.0.0.1:{port}" for port in free_ports(2))
    with (
        running_demo(listener=broker, more={REGISTRY_VARIABLE: f"http://{registry}"}) as demo,
        running_registry(broker, registry),
    ):
        return take(browser, demo.url, names)


def take_of_streams(browser: Browser, names: Sequence[str], seconds: float) -> list[str]:
    """Take the pictures of pages about applications, and return the browser's messages and errors."""
    (port,) = free_ports(1)
    listener = f"127.0.0.1:{port}"
    with running_demo(listener=listener) as demo, running_on_spark(listener):
        time.sleep(seconds)
        return take(browser, demo.url, [*names, *([STREAM_ON_SPARK] if "stream" in names else [])])


def main() -> int:
    names = [page.name for page in PAGES]
    parser = argparse.ArgumentParser(
        prog="python -m tools.dashboard_pictures", description="Pictures of the dashboard."
    )
    parser.add_argument("--page", action="append", choices=names, help="only this page; may be repeated")
    parser.add_argument("--seconds", type=float, default=150.0, help="history before the first picture; %(default)g s")
    given = parser.parse_args()
    try:
        chosen = given.page or [name for name in names if name not in EMPTY]
        of_nodes = [name for name in chosen if name in OF_NODES]
        of_registry = [name for name in chosen if name in OF_REGISTRY]
        of_streams = [name for name in chosen if name in OF_STREAMS]
        alone = [name for name in chosen if name not in (*OF_NODES, *OF_REGISTRY, *OF_STREAMS)]
        problems = []
        with launched() as browser:
            if alone:
                with running_demo() as demo:
                    time.sleep(given.seconds)
                    problems += take(browser, demo.url, alone)
            if of_streams:
                problems += take_of_streams(browser, of_streams, given.seconds)
            if of_registry:
                problems += take_of_registry(browser, of_registry)
            if of_nodes:
                with running_demo(NODES) as demo:
                    problems += take_of_nodes(browser, demo, of_nodes)
    except BrowserError as error:
        problems = [f"dashboard_pictures: {error}"]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
