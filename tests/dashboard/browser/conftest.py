"""A broker with data, a dashboard for it, and tabs of a headless Chromium that fail on browser errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.dashboard.browser.tab import Tab, run_async
from tests.support.broker import QUICK, BrokerProcess
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.dashboard import running_dashboard

TOPIC, GROUP = "orders", "billing"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with topics, records, a group that reads, and a group without members."""
    settings = {**QUICK, "transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "1000"}
    broker = BrokerProcess(tmp_path_factory.mktemp("dash-broker"), settings)
    try:
        broker.start()
        run_async(_fill(broker.bootstrap))
        consumer = new_consumer(broker.bootstrap, GROUP)
        try:
            consumer.subscribe([TOPIC])
            run_async(assigned([consumer]))
            yield broker
        finally:
            close_consumer(consumer)
    finally:
        broker.close()


async def _fill(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as client:
        names = [
            NewTopic(TOPIC, 3, configs={"retention.ms": "-1"}),
            *(NewTopic(f"topic-{n:03}", 1) for n in range(150)),
        ]
        (await client.topics.create(names)).whole()
        records = [Record(key=b"key-%d" % n, value=b'{"order": %d}' % n) for n in range(300)]
        await client.records.producer().send(TOPIC, records)
        (await client.group_offsets.alter("stopped", {TopicPartition(TOPIC, 0): 1})).whole()


@pytest.fixture(scope="session")
def dashboard(cluster: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard on loopback, without login."""
    state = tmp_path_factory.mktemp("dash-state")
    clusters = state / "clusters.toml"
    clusters.write_text(f'[clusters.main]\nbootstrap = "{cluster.bootstrap}"\n')
    config = state / "dashboard.toml"
    config.write_text('[environments]\nmain = "production"\n')
    with running_dashboard(
        ["--clusters-file", str(clusters), "--config", str(config), "--state", str(state / "state")],
        env={"XDG_CONFIG_HOME": str(state)},
    ) as url:
        yield url


@pytest.fixture
def new_tab(chromium: Browser) -> Iterator[Callable[..., Tab]]:
    """Open tabs; at the end of the test none of them may have reported a problem."""
    opened: list[Tab] = []

    def make(url: str, *, dark: bool = False, width: int = 1280, zone: str = "UTC", is_mobile: bool = False) -> Tab:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale="en-US",
            timezone_id=zone,
            is_mobile=is_mobile,
            has_touch=is_mobile,
        )
        opened.append(Tab(context, url))
        return opened[-1]

    yield make
    for tab in opened:
        tab.close()


@pytest.fixture
def tab(dashboard: str, new_tab: Callable[..., Tab]) -> Tab:
    """A tab of the dashboard of the whole run."""
    return new_tab(dashboard)
