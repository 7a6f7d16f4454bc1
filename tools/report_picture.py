"""`python -m tools.report_picture report.html out.png`: a report, or parts of it, as a picture from a headless browser.

    --section TEXT   only the section whose heading is TEXT (Compared, Latency, Over time, Where the time goes, ...);
                     may be repeated, for sections one below the other; `head` is the part above the first section
    --chart ID       only this chart (its id in the page: ratios, percentiles-latency, profile-modules, ...); may be
                     repeated
    --dark           in the colours of the dark theme
    --width PIXELS   of the page (1,100)

Console messages and errors of the report end the program with exit code 1, and so does a missing section: a picture of
a broken report is worse than none.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page

from bench.launch.chromium import BrowserError, launched

# After two frames the layout is drawn.
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
HEIGHT = 900  # of the window; the picture is as high as its contents
# Keeps only the requested parts: sections by their heading, charts by their id.
SHOW = """([sections, charts]) => {
  const named = (section) => section.querySelector("h2")?.textContent;
  const missing = sections.filter((name) => name !== "head" &&
    ![...document.querySelectorAll("main > section")].some((section) => named(section) === name));
  missing.push(...charts.filter((id) => !document.getElementById(id)?.classList.contains("plot")));
  if (missing.length) return missing;
  if (sections.length || charts.length) {
    document.querySelectorAll("main > *").forEach((part) => {
      const asked = part.tagName === "HEADER" ? sections.includes("head")
        : part.classList.contains("controls") || sections.includes(named(part) ?? "")
        || charts.some((id) => part.contains(document.getElementById(id)));
      if (!asked) part.remove();
    });
    document.querySelectorAll("main > section").forEach((section) => {
      if (sections.includes(named(section))) return;
      section.querySelectorAll("h2, .card").forEach((card) => {
        if (!charts.some((id) => card.contains(document.getElementById(id)))) card.remove();
      });
    });
  }
  document.querySelectorAll(".controls").forEach((part) => { part.style.position = "static"; });
  window.dispatchEvent(new Event("resize"));
  return [];
}"""


class PictureError(Exception):
    """No picture was made; the message is the reason."""


def picture(
    report: Path,
    out: Path,
    sections: Sequence[str] = (),
    charts: Sequence[str] = (),
    *,
    dark: bool = False,
    width: int = 1100,
) -> None:
    """Draw `report` into `out` (PNG); the whole page if no part is named. Raises PictureError and BrowserError."""
    if not report.is_file():
        raise PictureError(f"{report}: no such file")
    with launched() as browser:
        page = browser.new_page(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(report.resolve().as_uri())
        missing = page.evaluate(SHOW, [list(sections), list(charts)])
        if missing:
            raise PictureError(f"{report}: there is no {', '.join(missing)} (there are {', '.join(known(page))})")
        page.wait_for_function(DRAWN)
        if complaints:
            raise PictureError(f"{report}: the browser complained: {'; '.join(complaints)}")
        out.parent.mkdir(parents=True, exist_ok=True)
        page.locator("main").screenshot(path=out)


def known(page: Page) -> list[str]:
    """Return the sections and charts of a report."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main > section > h2")].map((each) => each.textContent)
            .concat([...document.querySelectorAll(".plot")].map((each) => each.id))"""
    )
    return ["head", *found]


def main(argv: Sequence[str] | None = None) -> int:
    """Make the requested picture; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.report_picture", description="A report as a picture.")
    parser.add_argument("report", type=Path, metavar="REPORT.html")
    parser.add_argument("out", type=Path, metavar="OUT.png")
    parser.add_argument("--section", action="append", default=[], metavar="TEXT")
    parser.add_argument("--chart", action="append", default=[], metavar="ID")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1100, metavar="PIXELS")
    options = parser.parse_args(argv)
    try:
        picture(options.report, options.out, options.section, options.chart, dark=options.dark, width=options.width)
    except (BrowserError, PictureError) as error:
        print(f"report_picture: {error}", file=sys.stderr)
        return 1
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
