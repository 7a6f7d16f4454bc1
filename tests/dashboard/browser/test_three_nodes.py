"""Three nodes of Apache Kafka: brokers, replicas, in-sync sets and quorum; panels that only broker-cy can fill say
so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.dashboard.browser.tab import Tab, run_async
from tests.support import needs
from tests.support.dashboard import running_dashboard
from tests.support.kafka_cluster import kafka_cluster
from tests.support.kafka_peer import KafkaPeer

pytestmark = [pytest.mark.full, needs.kafka]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaPeer]]:
    with kafka_cluster(tmp_path_factory.mktemp("kafka")) as found:
        run_async(_fill(found[0].bootstrap))
        yield found


async def _fill(bootstrap: str) -> None:
    async with AdminClient(bootstrap, timeout_s=60) as client:
        (await client.topics.create([NewTopic("orders", 6, 3)])).whole()
        await client.records.producer().send("orders", [Record(value=b"x")] * 10)


@pytest.fixture(scope="module")
def site(nodes: list[KafkaPeer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("dash")
    clusters = directory / "clusters.toml"
    addresses = ",".join(node.bootstrap for node in nodes)
    # The second cluster is unavailable, and must not affect the first.
    clusters.write_text(f'[clusters.main]\nbootstrap = "{addresses}"\n[clusters.gone]\nbootstrap = "127.0.0.1:1"\n')
    with running_dashboard(
        ["--clusters-file", str(clusters), "--state", str(directory / "state")], env={"XDG_CONFIG_HOME": str(directory)}
    ) as url:
        yield url


def test_brokers_replicas_and_the_quorum(site: str, new_tab: Callable[..., Tab], nodes: list[KafkaPeer]) -> None:
    """If this fails, operators of a cluster do not see that a replica is behind, or which broker is down."""
    tab = new_tab(site)
    tab.open("brokers")
    tab.settled()
    rows = tab.panel("All brokers").locator("tbody tr")
    assert rows.count() == 3
    assert [f"rack-{number}" in rows.nth(number - 1).inner_text() for number in (1, 2, 3)] == [True] * 3
    assert tab.violations() == []
    tab.page.wait_for_selector("text=Every partition has a leader")
    nodes[2].kill()
    tab.panel("Partitions out of sync").locator(".ag-row", has_text="orders").first.wait_for()
    nodes[2].restart()
    tab.page.wait_for_selector("text=Every partition has a leader", timeout=90_000)


def test_what_only_broker_cy_tells_says_so(site: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, charts of a Kafka cluster load forever, or look like those of an idle one."""
    tab = new_tab(site)
    tab.open("overview")
    states = tab.settled()
    assert states["Health"] == "ok"
    assert states["Throughput"] == states["Recent events"] == "absent"
    assert "__broker_metrics" in tab.panel("Throughput").locator("[data-state]").inner_text()
    tab.open("topics")
    assert tab.settled() == {"All topics": "ok"}


def test_a_cluster_that_is_away_hinders_no_other(site: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, one dead cluster makes the dashboard of all others slow."""
    tab = new_tab(site)
    tab.page.goto(f"{site}c/gone/topics")
    tab.page.wait_for_selector("[data-state=error]")
    tab.page.locator("details.clusters summary").click()
    tab.page.get_by_role("link", name="main").click()
    tab.page.wait_for_url("**/c/main/topics")
    tab.page.get_by_role("link", name="orders").wait_for()
