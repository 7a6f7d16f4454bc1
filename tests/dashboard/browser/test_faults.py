"""Messages of a page when a cluster is unavailable, or a subject is missing or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dashboard.browser.conftest import TOPIC
from tests.dashboard.browser.tab import Tab
from tests.support.broker import QUICK, BrokerProcess
from tests.support.dashboard import running_dashboard

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("query", "expected"),
    [({"sort": "bogus"}, "sort=bogus: expected one of topic, "), ({"desc": "yes"}, "desc=yes: expected one of 0, 1")],
    ids=["sort", "desc"],
)
def test_an_order_that_is_unknown_is_named(tab: Tab, query: dict[str, str], expected: str) -> None:
    """If this fails, a link with a typing error shows another order than the one it names."""
    tab.open("topics", **query)
    tab.page.locator("[data-state=error]", has_text=expected).wait_for()


def test_a_range_without_a_time_names_what_is_missing(tab: Tab) -> None:
    """If this fails, an empty field of the range gives the error that the end must be after the beginning."""
    tab.open("topic", topic=TOPIC)
    tab.settled()
    tab.page.get_by_text("From – to").click()
    show = tab.page.locator("[data-range] button")
    for empty, expected in (
        (["From"], "From is missing"),
        (["To"], "To is missing"),
        (["From", "To"], "From and To are"),
    ):
        for label in ("From", "To"):
            tab.page.get_by_label(label, exact=True).fill("" if label in empty else "2026-01-01T10:00")
        show.click()
        tab.page.locator(".toast", has_text=expected).last.wait_for()


def test_a_message_that_is_too_large_does_not_load_the_page_again(tab: Tab) -> None:
    """If this fails, a tab whose address is too long for the dashboard reloads itself forever."""
    tab.open("topics")
    tab.settled()
    tab.page.evaluate(
        """() => {
          window.sameDocument = true;
          const spec = { cluster: "main", channel: "health", params: { text: "x".repeat(20000) } };
          window.dashboard.core.subscribe(spec, { frame() {}, refused() {} });
        }"""
    )
    tab.page.locator("[data-live]", has_text="load the page again").wait_for()
    assert tab.page.evaluate("window.sameDocument")


def test_nothing_is_counted_of_a_cluster_that_is_away(new_tab: Callable[..., Tab], tmp_path: Path) -> None:
    """If this fails, a table shows "0 groups" next to the error that the cluster does not answer."""
    broker = BrokerProcess(tmp_path / "broker", QUICK)
    clusters = tmp_path / "clusters.toml"
    try:
        broker.start()
        clusters.write_text(f'[clusters.main]\nbootstrap = "{broker.bootstrap}"\n')
        options = ["--clusters-file", str(clusters), "--state", str(tmp_path / "state"), "--timeout", "2"]
        with running_dashboard(options, env={"XDG_CONFIG_HOME": str(tmp_path)}) as url:
            tab = new_tab(url)
            tab.open("groups")
            tab.settled()
            counted = tab.panel("All groups").locator(".panel-count")
            assert counted.inner_text() == "0 groups"
            broker.close()
            tab.panel("All groups").locator("[data-state=error]").wait_for()
            assert counted.count() == 0
            tab.problems.clear()
            tab.page.goto("about:blank")
    finally:
        broker.close()
