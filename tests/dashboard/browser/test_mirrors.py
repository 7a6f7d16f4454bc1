"""The pages of mirrors in a browser: light and dark, wide and narrow, and the acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.topics import NewTopic
from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.broker import QUICK, BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.mirror_page import flow_of, serving

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]

TOPIC = "east-orders"


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of a cluster with a flow of a process, and a link."""
    broker = BrokerProcess(tmp_path_factory.mktemp("mirrors-broker"), QUICK)
    state = tmp_path_factory.mktemp("dash-state")
    clusters = state / "clusters.toml"
    options = ["--clusters-file", str(clusters), "--state", str(state / "state")]

    async def create() -> None:
        async with AdminClient(parse_addresses(broker.bootstrap)) as client:
            configs: dict[str, str | None] = {"brokercy.mirror.link": "east"}
            (await client.topics.create([NewTopic(TOPIC, 2, configs=configs)])).whole()

    try:
        broker.start()
        asyncio.run(create())
        with serving(flow_of()) as process:
            clusters.write_text(
                f'[clusters.{CLUSTER}]\nbootstrap = "{broker.bootstrap}"\nmirrors = "{process},127.0.0.1:1"\n'
            )
            with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
                yield url
    finally:
        broker.close()


@pytest.mark.parametrize(("is_dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark-narrow"])
def test_the_pages_have_no_fault(mirrors: str, new_tab: Callable[..., Tab], is_dark: bool, width: int) -> None:
    """If this fails, a page of mirrors has a panel without data, or a text that some users cannot read."""
    tab = new_tab(mirrors, dark=is_dark, width=width)
    for page, query in (("mirrors", {}), ("mirror", {"flow": "A->B"}), ("mirror", {"flow": "east"})):
        tab.open(page, **query)
        assert set(tab.settled().values()) <= {"ok", "empty"}
        assert tab.violations() == []
        assert not tab.overflows()


def test_a_mirror_topic_is_paused_resumed_and_promoted(mirrors: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, a failover needs another program; or a mirror ends without a question."""
    tab = new_tab(mirrors)
    tab.open("mirrors")
    tab.settled()
    tab.panel("Mirrors").get_by_role("link", name="east", exact=True).click()
    tab.page.wait_for_selector("h1:has-text('Mirror east')")
    tab.settled()
    for act in ("Pause", "Resume"):
        tab.page.get_by_label(f"Mark {TOPIC}-0", exact=True).check()
        value = "true" if act == "Pause" else "false"
        assert f"--set=brokercy.mirror.paused={value}" in tab.act(act)
    tab.page.get_by_label(f"Mark {TOPIC}-1", exact=True).check()
    assert "broker-mirror promote --topic" in tab.act("Promote", typed=TOPIC)
    tab.page.get_by_text("the cluster has no such flow").first.wait_for()
