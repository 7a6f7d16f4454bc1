"""Typed times are in the time zone of the displayed times, even if the server's zone differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.dashboard.browser.tab import Tab
from tests.dashboard.browser.test_acts import asked
from tests.support.broker import BrokerProcess
from tests.support.dashboard import running_dashboard

pytestmark = pytest.mark.full

SERVER, BROWSER = "Asia/Kolkata", "America/New_York"
# The hour in which record n of the topic was written, for the browser's clock.
FIRST = datetime(2026, 1, 31, 12, 0)
HOURS = 24


@pytest.fixture(scope="module")
def far_dashboard(cluster: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard on a machine whose zone is far from the browser's."""
    state: Path = tmp_path_factory.mktemp("far-state")
    clusters = state / "clusters.toml"
    clusters.write_text(f'[clusters.main]\nbootstrap = "{cluster.bootstrap}"\n')
    options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state), "TZ": SERVER}) as url:
        yield url


def ms_of(moment: datetime, zone: str) -> int:
    return int(moment.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize("shown", [BROWSER, "UTC"])
def test_typed_times_are_those_that_pages_show(
    far_dashboard: str, new_tab: Callable[..., Tab], cluster: BrokerProcess, shown: str
) -> None:
    """If this fails, an act deletes or rereads records of other hours than the user saw."""
    topic, group = f"zones-{shown.rpartition('/')[2]}", f"readers-{shown.rpartition('/')[2]}"
    key = TopicPartition(topic, 0)

    async def fill(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(topic, 1, configs={"retention.ms": "-1"})])).whole()
        times = [ms_of(FIRST + timedelta(hours=hour), shown) for hour in range(HOURS)]
        await client.records.producer().send(topic, [Record(value=b"x", timestamp=each) for each in times])
        (await client.group_offsets.alter(group, {key: 0})).whole()

    asked(cluster, fill)
    tab = new_tab(far_dashboard, zone=BROWSER)
    tab.open("topic", topic=topic)
    tab.settled()
    if shown == "UTC":
        tab.page.locator("[data-zone-toggle]").first.click()
    command = tab.act("Delete records", {"before": "@2026-01-31 15:00"}, typed=topic)
    assert f"--before @{ms_of(FIRST + timedelta(hours=3), shown)}" in command
    assert asked(cluster, lambda client: client.offsets.earliest([key])).whole() == {key: 3}

    command = tab.act("Produce", {"value": "typed", "timestamp": "2026-02-02T08:30:00.250"})
    typed_ms = ms_of(datetime(2026, 2, 2, 8, 30), shown) + 250
    assert re.search(rf'"timestamp(_ms)?": ?{typed_ms}\b', command)

    tab.open("group", group=group)
    tab.settled()
    command = tab.act("Reset offsets", {"rule": "time", "value": "2026-01-31T20:00"}, typed=None)
    assert f"--to-time {ms_of(FIRST + timedelta(hours=8), shown)}" in command
    offsets = asked(cluster, lambda client: client.group_offsets.fetch([group])).whole()[group]
    assert offsets[key].offset == 8

    # A link has the moment, not the clock of one viewer.
    tab.open("records", topic=topic)
    tab.settled()
    tab.page.locator("#read-from").fill("@2026-01-31T20:00")
    tab.page.get_by_role("button", name="Read", exact=True).click()
    tab.page.wait_for_url(re.compile(r"from=%402026-(01-31|02-01)T\d\d%3A00%3A00\.000Z"))


# Daylight saving skips the second one.
@pytest.mark.parametrize("text", ["@2026-02-30", "@2026-03-08T02:30"])
def test_a_time_that_does_not_exist_is_refused(far_dashboard: str, new_tab: Callable[..., Tab], text: str) -> None:
    """If this fails, a typing error in a date deletes records of another day or hour."""
    tab = new_tab(far_dashboard, zone=BROWSER)
    tab.open("topic", topic="orders")
    tab.settled()
    tab.page.get_by_role("button", name="Delete records", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    assert f"a time without a zone is in {BROWSER}" in dialog.locator("#field-before-hint").inner_text()
    dialog.locator("[name=before]").fill(text)
    dialog.locator("button[type=submit]").click()
    dialog.locator("#field-before-problem").wait_for()
    tab.page.keyboard.press("Escape")


def test_a_range_from_a_skipped_time_is_refused(far_dashboard: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, charts show another hour than the one that was typed, without a message."""
    tab = new_tab(far_dashboard, zone=BROWSER)
    tab.open("overview")
    tab.settled()
    tab.page.locator("[data-range] summary").click()
    tab.page.get_by_label("From", exact=True).fill("2026-03-08T02:30")
    tab.page.get_by_label("To", exact=True).fill("2026-03-08T06:00")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    tab.page.get_by_text(f"2026-03-08T02:30 does not exist in {BROWSER}").wait_for()
