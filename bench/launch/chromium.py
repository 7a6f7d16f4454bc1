"""A headless Chromium that Playwright drives, for measurements, tests and screenshots of pages."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    """The browser is missing, or a page did not behave as expected; the text says what is missing."""


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """Run a headless Chromium. Raises BrowserError if Playwright or Chromium is missing.

    Playwright runs an event loop in this thread: asyncio.run works only before and afterwards, or in other threads.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BrowserError("playwright is missing: pip install playwright (requirements/dev.in)") from None
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise BrowserError(f"there is no Chromium ({', '.join(PROGRAMS)}): tools/system_packages.sh installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
