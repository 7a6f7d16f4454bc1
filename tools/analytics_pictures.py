"""Take the pictures of docs/analytics.md: `python -m tools.analytics_pictures`.

Writes a lake of a made-up cluster with planted anomalies, makes its report, and takes its parts in both themes, in some
minutes. Console messages of the browser end the program with exit code 1.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser

from bench.launch.chromium import BrowserError, launched
from spark_analytics import synthetic_lake
from spark_analytics.errors import SetUpError
from spark_analytics.lake import Lake, Span
from spark_analytics.planted import Size, plant
from spark_analytics.report import collect, page
from spark_analytics.session import session

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WINDOW = {"width": 1240, "height": 900}
QUALITY = 72
WAIT_MS = 60_000
SIZE = Size(days=16, groups=3, commit_s=60)
SEED = 7
SLOW_TIMES = 6
# The parts of the page by picture name: the head, or the section with a heading.
PARTS = {"head": "", "throughput": "Throughput", "lag": "Lag", "rebalances": "Rebalances", "forecast": "Forecast"}
# A picture ends with the last card of its part above this height.
HEIGHT_MAX = 1_150
MARGIN = 12


def make(directory: Path) -> Path:
    """Return the report on a made-up cluster. Raises SetUpError."""
    spark = session("pictures", memory="3g")
    lake = Lake(directory / "lake")
    synthetic_lake.write(spark, lake, SIZE, SEED, plant(SIZE, SEED, slow=SLOW_TIMES), "orders")
    out = directory / "report.html"
    # The page names the lake: a picture has no path of the machine that took it.
    page.write(replace(collect.collect(spark, lake, Span(), ()), lake="lake"), out)
    spark.stop()
    return out


def take(browser: Browser, report: Path, theme: str) -> list[str]:
    """Take the pictures of a theme; return the browser's messages and errors."""
    problems: list[str] = []
    context = browser.new_context(viewport=WINDOW, color_scheme=theme, timezone_id="UTC")  # type: ignore[arg-type]
    shown = context.new_page()
    shown.set_default_timeout(WAIT_MS)
    shown.on("console", lambda message: problems.append(message.text))
    shown.on("pageerror", lambda error: problems.append(str(error)))
    shown.goto(report.as_uri())
    shown.wait_for_function('[...document.querySelectorAll(".plot")].every((plot) => plot.querySelector("svg .trace"))')
    for name, heading in PARTS.items():
        part = shown.locator("header")
        if heading:
            part = shown.locator("section").filter(has=shown.get_by_role("heading", name=heading, exact=True, level=2))
        top, height = part.evaluate("(part) => { const b = part.getBoundingClientRect(); return [b.top, b.height]; }")
        bottoms = part.locator(".card").evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect()).filter((b) => b.height).map((b) => b.bottom)"
        )
        below = MARGIN
        if height > HEIGHT_MAX:
            height = max(bottom - top for bottom in bottoms if bottom - top <= HEIGHT_MAX)
            # A text may follow a few pixels below a card.
            below = 2
        # Relative to the whole page.
        top += shown.evaluate("window.scrollY")
        clip = {"x": 0, "y": max(0, top - MARGIN), "width": WINDOW["width"], "height": height + MARGIN + below}
        path = PICTURES / f"analytics-{name}-{theme}.jpg"
        shown.screenshot(path=path, type="jpeg", quality=QUALITY, full_page=True, clip=clip)  # type: ignore[arg-type]
        print(path, flush=True)
    context.close()
    return problems


def main() -> int:
    problems: list[str] = []
    try:
        with tempfile.TemporaryDirectory(prefix="analytics-pictures-") as name, launched() as browser:
            report = make(Path(name))
            for theme in ("light", "dark"):
                problems += take(browser, report, theme)
    except (BrowserError, SetUpError) as error:
        problems.append(f"analytics_pictures: {error}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
