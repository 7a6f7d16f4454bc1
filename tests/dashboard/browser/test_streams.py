"""The pages of stream processing applications in a browser: light and dark, wide and narrow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.broker import BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.streams_instance import SETTINGS, running_application

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]

NAME = "shown"
WAIT_S = 120.0


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of a cluster with an application."""
    broker = BrokerProcess(tmp_path_factory.mktemp("streams-broker"), SETTINGS)
    state = tmp_path_factory.mktemp("dash-state")
    clusters = state / "clusters.toml"
    options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
    is_up, is_over = threading.Event(), threading.Event()

    async def run() -> None:
        async with running_application(broker.bootstrap, NAME):
            is_up.set()
            await asyncio.to_thread(is_over.wait)

    try:
        broker.start()
        application = threading.Thread(target=lambda: asyncio.run(run()))
        application.start()
        try:
            assert is_up.wait(WAIT_S)
            clusters.write_text(f'[clusters.{CLUSTER}]\nbootstrap = "{broker.bootstrap}"\n')
            with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
                yield url
        finally:
            is_over.set()
            application.join(WAIT_S)
    finally:
        broker.close()


@pytest.mark.parametrize(("is_dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark-narrow"])
def test_the_pages_have_no_fault(streams: str, new_tab: Callable[..., Tab], is_dark: bool, width: int) -> None:
    """If this fails, a page of applications has a panel without data, or a text that some users cannot read."""
    tab = new_tab(streams, dark=is_dark, width=width)
    for page, query in (("streams", {}), ("stream", {"application": NAME})):
        tab.open(page, **query)
        assert set(tab.settled().values()) <= {"ok", "empty"}
        assert tab.violations() == []
        assert not tab.overflows()


def test_a_picture_leads_to_its_topics(streams: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the topology is not drawn, or has no figures."""
    tab = new_tab(streams)
    tab.open("streams")
    tab.settled()
    tab.panel("Applications").get_by_role("link", name=NAME, exact=True).click()
    tab.page.wait_for_selector(f"h1:has-text('Application {NAME}')")
    tab.settled()
    picture = tab.panel("Topology")
    picture.get_by_text("3 rows").wait_for()
    assert picture.locator(".graph-line-topic").count() == 1
    picture.get_by_role("link", name="shown-out").click()
    tab.page.wait_for_selector("h1:has-text('shown-out')")
