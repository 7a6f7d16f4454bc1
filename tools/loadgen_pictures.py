"""Take the pictures of docs/loadgen.md: `python -m tools.loadgen_pictures`.

Starts a broker, makes a run of a minute, and takes its report; then a short run from locust's page, and takes our
verdict. Console messages of the browser end the program with exit code 1.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from bench.launch.chromium import BrowserError, launched
from bench.launch.nodes import BrokerCy, free_ports
from broker_cy.launch.processes import Child

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = {"width": 1280, "height": 860}
QUALITY = 72
WAIT_MS = 120_000
RUN_S = 180.0
# A rate far below the limit of the generator, so that it is not the limit on a small machine either.
SCENARIO = ("--scenario", "mixed", "--rate", "100/s")
# Scrolls to a section; the controls of the charts stay above it.
BELOW_CONTROLS = """(part) => {
  const controls = document.querySelector(".controls").offsetHeight;
  window.scrollBy(0, part.getBoundingClientRect().top - controls - 12);
}"""
COMMAND = (sys.executable, "-m", "loadgen")


@contextmanager
def opened(browser: Browser, url: str, problems: list[str]) -> Iterator[Page]:
    """Open a page, and collect the browser's messages and errors."""
    context = browser.new_context(viewport=SIZE, color_scheme="light", timezone_id="UTC")  # type: ignore[arg-type]
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_default_timeout(WAIT_MS)
    page.goto(url)
    yield page
    context.close()


def picture(page: Page, name: str) -> None:
    path = PICTURES / f"load-{name}-light.jpg"
    page.screenshot(path=path, type="jpeg", quality=QUALITY)
    print(path, flush=True)


def take_report(browser: Browser, directory: Path, bootstrap: str, problems: list[str]) -> None:
    """Make a run, and take the top of its report and its first charts."""
    report = directory / "report.html"
    words = [*COMMAND, "run", "--bootstrap", bootstrap, *SCENARIO, "--duration", "60s", "--html", str(report)]
    run = Child(words, directory, "run")
    try:
        run.wait(RUN_S)
    finally:
        run.kill()
    with opened(browser, report.as_uri(), problems) as page:
        page.wait_for_function("document.querySelector('.plot svg .trace')")
        picture(page, "report")
        page.locator("section:has(.plot)").first.evaluate(BELOW_CONTROLS)
        # Charts are drawn in the frame after they become visible.
        page.wait_for_timeout(1_000)
        picture(page, "charts")


def take_page(browser: Browser, directory: Path, bootstrap: str, problems: list[str]) -> None:
    """Make a run from locust's page, and take its verdict."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    words = [*COMMAND, "web", "--bootstrap", bootstrap, "--listen", listen, *SCENARIO, "--duration", "10s"]
    web = Child(words, directory, "web")
    try:
        web.wait_for_output("http://", RUN_S)
        with opened(browser, f"http://{listen}", problems) as page:
            page.get_by_role("button", name="Start", exact=True).click()
            page.get_by_role("tab", name="Kafka verdict").click()
            page.locator("td:has-text('exit code')").wait_for()
            # The head of the page is updated separately.
            page.locator("header").get_by_text("Stopped").wait_for()
            picture(page, "web")
        web.send_signal(signal.SIGTERM)
        web.wait(RUN_S)
    finally:
        web.kill()


def main() -> int:
    problems: list[str] = []
    try:
        with launched() as browser, tempfile.TemporaryDirectory(prefix="loadgen-pictures-") as name:
            directory = Path(name)
            broker = BrokerCy(directory / "broker", {})
            try:
                broker.start()
                take_report(browser, directory, broker.bootstrap, problems)
                take_page(browser, directory, broker.bootstrap, problems)
            finally:
                broker.close()
    except BrowserError as error:
        problems.append(f"loadgen_pictures: {error}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
