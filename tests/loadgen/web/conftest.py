"""A browser, a broker, and `broker-load web` for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.dashboard.browser.tab import Tab
from tests.support.both_brokers import running
from tests.support.broker import Target


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running("broker-cy", tmp_path_factory.mktemp("load-web")) as target:
        yield target


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[[str], Tab]]:
    """Open locust's page; at the end no page may have reported an error, or loaded anything from another host."""
    opened: list[Tab] = []

    def open_at(url: str) -> Tab:
        opened.append(Tab(chromium.new_context(viewport={"width": 1280, "height": 900}), url))
        opened[-1].page.goto(url)
        return opened[-1]

    yield open_at
    for tab in opened:
        tab.close()
