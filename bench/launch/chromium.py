"""A headless Chromium that Playwright drives, for measurements, tests and screenshots of pages."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    """The browser is missing, or a page did not behave as expected; the text says what is missing."""


def missing() -> str | None:
    """Return a sentence about what must be installed; None if nothing is missing."""
    if find_spec("playwright") is None:
        return "playwright is missing: pip install playwright (requirements/dev.in)"
    if not any(map(shutil.which, PROGRAMS)):
        return f"there is no Chromium ({', '.join(PROGRAMS)}): tools/system_packages.sh installs it"
    return None


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """Run a headless Chromium. Raises BrowserError if Playwright or Chromium is missing.

    Playwright runs an event loop in this thread: asyncio.run works only before and afterwards, or in other threads.
    """
    if (reason := missing()) is not None:
        raise BrowserError(reason)
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
