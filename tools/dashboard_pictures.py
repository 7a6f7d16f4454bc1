"""Take the pictures of docs/dashboard.md from a running demo: `python -m tools.dashboard_pictures [--page NAME ...]`.

Takes about three minutes: the demo's groups need a history. Console messages of the browser end the program with exit
code 1.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from bench.launch.chromium import BrowserError, launched
from dashboard.pages.registry import PAGES
from demo.topics import PACKAGES, SLOW

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = {"width": 1280, "height": 860}
QUALITY = 72
WAIT_MS = 60_000
STOP_S = 30.0
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
}
SETTLED = """() => {
  const states = [...document.querySelectorAll("[data-panel] [data-state]")];
  return states.every((each) => ["ok", "empty", "absent"].includes(each.dataset.state));
}"""


@contextmanager
def running_demo() -> Iterator[str]:
    """Run the demo, and yield the address of its dashboard."""
    command = [sys.executable, "-m", "demo", "--listener", "127.0.0.1:0", "--metrics", "", "--dashboard", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if match := re.search(r"In a browser: (\S+)", line):
                yield match[1]
                return
        raise SystemExit("the demo ended")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def take(browser: Browser, url: str, names: Sequence[str]) -> list[str]:
    """Take the pictures, and return what the browser reported."""
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
            # The page of one rebalance is opened from the list of all.
            page.goto(f"{base}/{'rebalances' if name == 'rebalance' else name}" + (f"?{query}" if query else ""))
            page.wait_for_selector("main h1")
            if name == "rebalance":
                page.locator(".ag-row a").first.click()
                page.wait_for_url("**/rebalance?*")
            page.wait_for_function(SETTLED)
            # Charts are drawn in the frame after their data, and tables when their library is loaded.
            page.wait_for_timeout(2_500)
            path = PICTURES / f"dash-{name}-{theme}.jpg"
            page.screenshot(path=path, type="jpeg", quality=QUALITY)
            print(path, flush=True)
        context.close()
    return problems


def main() -> int:
    names = [page.name for page in PAGES]
    parser = argparse.ArgumentParser(
        prog="python -m tools.dashboard_pictures", description="Pictures of the dashboard."
    )
    parser.add_argument("--page", action="append", choices=names, help="only this page; may be repeated")
    parser.add_argument("--seconds", type=float, default=150.0, help="history before the first picture; %(default)g s")
    given = parser.parse_args()
    try:
        with launched() as browser, running_demo() as url:
            time.sleep(given.seconds)
            problems = take(browser, url, given.page or names)
    except BrowserError as error:
        problems = [f"dashboard_pictures: {error}"]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
