"""Every act in the browser: its form, its plan with the equivalent command line, its confirmation and its effect."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from dashboard.acts import registered
from dashboard.pages.registry import PAGES
from tests.dashboard.browser.tab import Tab
from tests.support.broker import BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.hanging import leave_hanging

pytestmark = pytest.mark.xdist_group("browser")

# Acts that a test below, or one of another file, executes. A new act must be added here, with a test.
TESTED = {
    "create-topic", "add-partitions", "clone-topic", "produce-record", "reproduce-records", "delete-records",
    "delete-topics", "change-setting", "reset-setting", "reset-group", "delete-group-offsets", "delete-groups",
    "abort-transaction",
    # test_share_records.py, with a share group that holds records:
    "release-share-records", "release-member-records", "reject-share-records", "redrive-share-records",
    # test_directories.py, with a broker that has two disks:
    "move-to-directory", "balance-directories", "drain-directory", "cancel-directory-moves",
    # test_operating.py, with several nodes:
    "cordon-broker", "uncordon-broker", "drain-broker", "decommission-broker", "fill-broker", "balance-brokers",
    "cancel-moves", "stop-moves", "elect-preferred", "elect-unclean", "add-voter", "remove-voter", "upgrade-quorum",
    # test_schemas.py, with a schema registry:
    "register-schema", "delete-subject", "delete-versions",
    # test_mirrors.py, with a mirror:
    "pause-mirrors", "resume-mirrors", "promote-mirrors",
    # test_rights.py, with an authorizer:
    "create-acl", "delete-acls", "create-user", "set-password", "delete-user",
    "set-quota", "change-quota", "remove-quotas", "create-token", "renew-token", "expire-token",
}  # fmt: skip


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def asked(cluster: BrokerProcess, job: Callable[[AdminClient], Awaitable[Any]]) -> Any:
    """Ask the broker directly, in a separate thread: Playwright's loop occupies the tests' thread."""

    async def inside() -> Any:
        async with AdminClient(cluster.bootstrap) as client:
            return await job(client)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, inside()).result()


def with_topic(cluster: BrokerProcess, name: str, records: int = 0) -> None:
    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(name, 1)])).whole()
        if records:
            await client.records.producer().send(name, [Record(value=b"v%d" % n) for n in range(records)])

    asked(cluster, job)


def test_every_act_is_tested() -> None:
    """If this fails, an act was added that no browser has ever opened."""
    assert PAGES
    assert set(registered()) == TESTED


def test_the_life_of_a_topic(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, topics cannot be managed from the dashboard, or an act does not do what its plan showed."""
    tab.open("topics")
    tab.settled()
    command = tab.act("Create a topic", {"name": name, "partitions": "2", "settings": "retention.ms=3600000"})
    assert command.startswith(f"broker-cy topics create {name} -p 2 --set retention.ms=3600000 --cluster main")
    assert tab.toast() == f"created topic {name} with 2 partitions"
    tab.page.get_by_role("link", name=name, exact=True).click()
    tab.page.wait_for_selector(f"h1:has-text('{name}')")
    tab.act("Add partitions", {"total": "3"})
    tab.act("Produce", {"value": "hello", "partition": "0"})
    tab.act("Clone", {"name": f"{name}-copy"})
    tab.act("Delete records", {"before": "end"}, typed=name)
    described = asked(cluster, lambda client: client.topics.describe([name, f"{name}-copy"])).whole()
    assert [len(each.partitions) for each in described.values()] == [3, 3]
    keys = [TopicPartition(name, 0)]
    assert asked(cluster, lambda client: client.offsets.earliest(keys)).whole() == {keys[0]: 1}
    tab.act("Delete", typed=name)
    tab.page.wait_for_url("**/topics")
    left = {topic.name for topic in asked(cluster, lambda client: client.topics.list_all())}
    assert (name in left, f"{name}-copy" in left) == (False, True)


@pytest.mark.full
def test_what_is_typed_must_be_the_name(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, one accidental click deletes a topic."""
    with_topic(cluster, name, 3)
    tab.open("topic", topic=name)
    tab.settled()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("#typed").fill(name[:-1])
    confirm = dialog.locator(".dialog-buttons button").last
    assert confirm.is_disabled()
    tab.page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert name in {topic.name for topic in asked(cluster, lambda client: client.topics.list_all())}


def test_a_wrong_value_is_reported_at_its_field(tab: Tab, name: str) -> None:
    """If this fails, a typing error closes the form, or its reason has to be guessed."""
    tab.open("topics")
    tab.settled()
    tab.page.get_by_role("button", name="Create a topic").click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("[name=name]").fill(name)
    dialog.locator("[name=partitions]").fill("many")
    dialog.locator("button[type=submit]").click()
    problem = dialog.locator("#field-partitions-problem")
    problem.wait_for()
    assert "1" in problem.inner_text()
    assert tab.violations() == []
    # The broker refuses a value that only it can check, and the form keeps its texts.
    dialog.locator("[name=partitions]").fill("1")
    dialog.locator("[name=settings]").fill("retention.ms=soon")
    dialog.locator("button[type=submit]").click()
    dialog.locator("p.problem").wait_for()
    assert "retention.ms" in dialog.locator("p.problem").inner_text()
    assert dialog.locator("[name=name]").input_value() == name
    tab.problems = [each for each in tab.problems if "/act/plan" not in each and "status of 40" not in each]
    tab.page.keyboard.press("Escape")


@pytest.mark.full
def test_marked_topics_are_deleted_together(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, an act on marked rows changes others, or only the first."""
    for number in range(3):
        with_topic(cluster, f"{name}-{number}")
    tab.open("topics", filter=name)
    tab.page.wait_for_selector(".panel-count:has-text('3 of ')")
    for number in (0, 2):
        tab.page.get_by_label(f"Mark {name}-{number}", exact=True).check()
    tab.page.wait_for_selector(".panel-count:has-text('2 marked')")
    command = tab.act("Delete marked", typed="2 topics")
    assert f"{name}-0 {name}-2 --yes" in command
    left = {topic.name for topic in asked(cluster, lambda client: client.topics.list_all())}
    assert {each for each in left if each.startswith(name)} == {f"{name}-1"}


@pytest.mark.full
def test_settings_of_a_topic(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, an act changes a setting that was not selected, or a change cannot be undone."""
    with_topic(cluster, name)

    def retention() -> str | None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        found = asked(cluster, lambda client: client.configs.describe([resource], names=["retention.ms"])).whole()
        value: str | None = found[resource][0].value
        return value

    before = retention()
    tab.open("topic-settings", topic=name, filter="retention.ms")
    tab.settled()
    tab.page.get_by_role("link", name="retention.ms", exact=True).click()
    tab.page.get_by_role("heading", name="retention.ms", exact=True).wait_for()
    tab.act("Change", {"value": "123456"})
    assert retention() == "123456"
    tab.act("Back to default")
    assert retention() == before


@pytest.mark.full
def test_records_are_produced_again(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, dead letters cannot be produced again, or other records than the marked ones are."""
    with_topic(cluster, name, 5)
    with_topic(cluster, f"{name}-dead")
    tab.open("records", topic=name)
    tab.settled()
    tab.page.wait_for_selector("text=v3")
    tab.page.locator("[col-id=_mark] input").nth(1).check()
    tab.act("Produce marked again", {"topic": f"{name}-dead"})
    key = TopicPartition(f"{name}-dead", 0)
    assert asked(cluster, lambda client: client.offsets.latest([key])).whole() == {key: 1}


@pytest.mark.full
def test_a_group_is_reset_and_deleted(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, offsets are set to other values than in the preview."""
    with_topic(cluster, name, 10)
    key = TopicPartition(name, 0)
    asked(cluster, lambda client: client.group_offsets.alter(name, {key: 2}))
    tab.open("group", group=name)
    tab.settled()
    tab.page.get_by_role("button", name="Reset offsets").click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("[name=rule]").select_option("offset")
    dialog.locator("[name=value]").fill("7")
    dialog.locator("button[type=submit]").click()
    dialog.locator(".changes").wait_for()
    assert f"{name}-0: 2 -> 7 (+5)" in dialog.locator(".changes").inner_text()
    dialog.locator(".dialog-buttons button").last.click()
    dialog.wait_for(state="hidden")
    committed = asked(cluster, lambda client: client.group_offsets.fetch([name])).whole()
    assert committed[name][key].offset == 7
    tab.page.get_by_label(f"Mark {name}-0", exact=True).check()
    tab.act("Delete offsets of marked", typed=name)
    assert key not in asked(cluster, lambda client: client.group_offsets.fetch([name])).whole()[name]
    asked(cluster, lambda client: client.group_offsets.alter(name, {key: 2}))
    tab.act("Delete", typed=name)
    tab.page.wait_for_url("**/groups")
    assert name not in {each.group_id for each in asked(cluster, lambda client: client.groups.listed())}


@pytest.mark.full
def test_a_hanging_transaction_is_aborted(tab: Tab, cluster: BrokerProcess, name: str) -> None:
    """If this fails, read_committed consumers wait for a transaction that cannot be ended."""
    asked(cluster, lambda client: leave_hanging(client, name))
    tab.open("transactions")
    row = tab.panel("Hanging transactions").locator(".ag-row", has_text=name)
    # The list is read every 15 s, and a transaction counts as hanging only after a second.
    row.locator("input").check(timeout=60_000)
    tab.act("Abort marked", typed=name)
    assert "aborted" in tab.toast()


@pytest.mark.full
def test_nothing_changes_in_read_only_mode(
    cluster: BrokerProcess, new_tab: Callable[..., Tab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If this fails, --readonly only hides buttons."""
    state = tmp_path_factory.mktemp("readonly")
    clusters = state / "clusters.toml"
    clusters.write_text(f'[clusters.main]\nbootstrap = "{cluster.bootstrap}"\n')
    options = ["--clusters-file", str(clusters), "--state", str(state / "state"), "--readonly"]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
        tab = new_tab(url)
        tab.open("topics")
        tab.settled()
        assert tab.page.get_by_role("button", name="Create a topic").is_disabled()
        status, text = tab.page.evaluate(
            """async () => {
              const body = JSON.stringify({cluster: "main", act: "create-topic", params: {}, rows: []});
              const headers = {"Content-Type": "application/json"};
              const answer = await fetch("/act/open", {method: "POST", headers, body});
              return [answer.status, await answer.text()];
            }"""
        )
        assert (status, "read-only mode" in text) == (403, True)
        tab.problems.clear()
        tab.close()
