"""Four nodes in the browser: the display of a killed node, and every act on brokers, leaders and voters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.dashboard.browser.tab import Tab, run_async
from tests.support.cluster import ClusterNode, cluster, in_sync, quorum, topics
from tests.support.dashboard import running_dashboard
from tests.support.wait import until

# Four nodes, a dashboard and a browser: in parallel with other tests, a page may take longer than a reassignment.
pytestmark = [pytest.mark.full, pytest.mark.serial]

T = TypeVar("T")
TOPIC, PAIR = "orders", "pair"
# The size of a replica: its copy takes seconds with the throttle, and is immediate without.
RECORDS, RECORD_BYTES = 8, 500_000
# Long enough for a busy machine.
WAIT_S = 90.0
VOTER = 3


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    """Three nodes that are also controllers, and a fourth, so that one of them can be drained."""
    roles = ("broker,controller",) * 3 + ("broker",)
    with cluster(tmp_path_factory.mktemp("nodes"), roles) as found:
        run_async(_fill(found[0].bootstrap))
        yield found


async def _fill(bootstrap: str) -> None:
    async with AdminClient(bootstrap, timeout_s=60) as client:
        (await client.topics.create([NewTopic(TOPIC, 4, 2), NewTopic(PAIR, 12, 2)])).whole()
        for _ in range(RECORDS * 4):
            await client.records.producer().send(TOPIC, [Record(value=b"x" * RECORD_BYTES)])


@pytest.fixture(scope="module")
def site(nodes: list[ClusterNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("dash")
    clusters = directory / "clusters.toml"
    clusters.write_text(f'[clusters.main]\nbootstrap = "{",".join(node.bootstrap for node in nodes)}"\n')
    with running_dashboard(
        ["--clusters-file", str(clusters), "--state", str(directory / "state")], env={"XDG_CONFIG_HOME": str(directory)}
    ) as url:
        yield url


@pytest.fixture
def tab(site: str, new_tab: Callable[..., Tab]) -> Tab:
    return new_tab(site)


def apart(work: Callable[[], T]) -> T:
    """Ask a node in a separate thread: Playwright's loop occupies the tests' thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def broker(tab: Tab, number: int) -> None:
    tab.open("broker", broker=str(number))
    tab.settled()


def run_over(tab: Tab, title: str) -> None:
    """Wait until the newest run of the dashboard has ended as expected."""
    tab.open("reassignments")
    row = tab.panel("Runs of this dashboard").locator("tbody tr").first
    row.filter(has_text=re.compile(f"{title}.*moved [0-9]+ partition")).wait_for()


def test_moves_of_replicas(tab: Tab) -> None:
    """If this fails, a broker cannot be drained from the dashboard, or a drain that was started there cannot be
    stopped.
    """
    broker(tab, 4)
    assert "brokers cordon 4 --yes" in tab.act("Cordon")
    tab.panel("Broker").get_by_text("cordoned").wait_for()
    assert "brokers uncordon 4 --yes" in tab.act("Uncordon")
    command = tab.act("Drain", {"concurrent": "1", "throttle": "100k"})
    assert "brokers drain 4 --concurrent 1 --throttle 102400 --yes" in command
    tab.open("reassignments")
    # A partition whose move takes as long as this test: small ones are moved before the test can mark them.
    row = tab.panel("Moving partitions").locator(".ag-row").filter(has_text=f"{TOPIC}-")
    row.first.wait_for()
    tab.panel("All reassignments").get_by_text("100 KiB/s").wait_for()
    tab.settled()
    assert tab.violations() == []
    row.first.locator("input[type=checkbox]").check()
    assert "reassign cancel --topic" in tab.act("Cancel marked")
    tab.page.get_by_role("button", name="Stop", exact=True).click()
    tab.page.locator("dialog.dialog .affected").wait_for()
    tab.page.locator("dialog.dialog .dialog-buttons button").last.click()
    tab.panel("Runs of this dashboard").get_by_text("stopped: completed reassignments stay").first.wait_for()
    tab.panel("Moving partitions").get_by_text("No replica is being moved").wait_for()
    broker(tab, 4)
    tab.act("Uncordon")


def test_a_broker_goes_and_comes_back(tab: Tab) -> None:
    """If this fails, a broker is not emptied completely, or a new one gets no replicas."""
    broker(tab, 4)
    assert "brokers decommission 4 --concurrent 20 --yes" in tab.act("Decommission", {"concurrent": "20"})
    run_over(tab, "Decommission broker 4")
    broker(tab, 4)
    tab.act("Uncordon")
    assert "reassign apply --add 4 --concurrent 20 --yes" in tab.act("Fill", {"concurrent": "20"})
    run_over(tab, "Fill broker 4")
    tab.open("brokers")
    tab.page.get_by_role("button", name="Balance", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("button[type=submit]").click()
    dialog.locator(".command code").get_by_text("reassign apply --balance").wait_for()


def test_a_killed_node_and_the_leaders(tab: Tab, nodes: list[ClusterNode], new_tab: Callable[..., Tab]) -> None:
    """If this fails, an operator does not see that a node is down, why, or which partitions it affects, or cannot fix
    them.
    """
    by_port = nodes[0].port
    until(lambda: apart(lambda: in_sync(by_port, PAIR, 2)), "in-sync replicas", WAIT_S)
    # A partition on the fourth node and another one: after the kill, the fourth has the last in-sync replica.
    part = next(each for each in apart(lambda: topics(by_port))[PAIR].partitions if 4 in each.replica_nodes)
    other = next(node for node in nodes if node.node_id in part.replica_nodes and node.node_id != 4)
    asked = next(node for node in nodes[:3] if node is not other)
    other.kill()
    tab.open("brokers")
    tab.panel("All brokers").locator("tr", has_text="fenced (process ended)").wait_for()
    tab.panel("Partitions out of sync").locator(".ag-row", has_text=TOPIC).first.wait_for()
    failures = tab.panel("Failures and elections").locator("tr")
    failures.filter(has_text=f"broker {other.node_id}").filter(has_text="lost").wait_for()
    failures.filter(has_text="leaders elected").filter(has_text="failure").first.wait_for()
    tab.settled()
    assert tab.violations() == []
    narrow = new_tab(tab.url, width=400, dark=True)
    for page in ("brokers", "reassignments", "quorum"):
        narrow.open(page)
        narrow.settled()
        assert narrow.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert narrow.violations() == []

    def alone() -> bool:
        now = apart(lambda: topics(asked.port))[PAIR].partitions
        return any(each.isr_nodes == [4] for each in now if each.partition_index == part.partition_index)

    until(alone, "an in-sync set of one", WAIT_S)
    nodes[3].kill()
    until(lambda: asked.brokers() == 2, "two brokers", WAIT_S)
    other.restart()
    until(lambda: asked.brokers() == 3, "the other broker", WAIT_S)
    tab.open("brokers")
    offline = tab.panel("Partitions out of sync").locator(".ag-row", has_text="offline")
    offline.filter(has_text=PAIR).first.wait_for()
    values = {"topic": PAIR, "partitions": str(part.partition_index)}
    command = tab.act("Elect uncleanly …", values, typed=PAIR)
    assert f"leaders elect --unclean --topic {PAIR}:{part.partition_index} --yes" in command
    tab.panel("Failures and elections").locator("tr").filter(has_text="unclean").first.wait_for()
    nodes[3].restart()
    tab.page.wait_for_selector("text=Every partition has a leader")
    assert "leaders elect --preferred --yes" in tab.act("Elect preferred leaders")


def test_voters(tab: Tab, nodes: list[ClusterNode]) -> None:
    """If this fails, a voter cannot be replaced from the dashboard."""
    tab.open("quorum")
    tab.settled()
    assert tab.violations() == []
    shown = tab.panel("Quorum replicas").locator("tbody tr")
    assert all("CONTROLLER://" in each for each in shown.all_inner_texts() if "observer" not in each)
    assert "quorum upgrade --yes" in tab.act("Upgrade kraft.version")
    assert f"quorum remove {VOTER} " in tab.act("Remove voter", {"node": str(VOTER)}, typed=str(VOTER))

    def voters() -> set[int]:
        return {each.replica_id for each in apart(lambda: quorum(nodes[0].port)).current_voters}

    assert voters() == {1, 2}
    shown.filter(has_text=re.compile(f"^{VOTER}observer")).wait_for()
    endpoint = f"CONTROLLER://127.0.0.1:{nodes[VOTER - 1].controller_port}"
    assert f"quorum add {VOTER} " in tab.act("Add voter", {"node": str(VOTER), "endpoints": endpoint})
    assert voters() == {1, 2, 3}
