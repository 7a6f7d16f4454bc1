"""Every page in a browser: light and dark, wide and narrow; and the links between pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dashboard.pages.registry import PAGES
from tests.dashboard.browser.conftest import GROUP, TOPIC
from tests.dashboard.browser.tab import Tab
from tests.support.broker import BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.tiers import by_tier

# The subject of each page that needs one.
SUBJECTS: dict[str, dict[str, str]] = {
    "topic": {"topic": TOPIC},
    "topic-settings": {"topic": TOPIC},
    "records": {"topic": TOPIC},
    "producers": {"topic": TOPIC},
    "group": {"group": GROUP},
    "group-settings": {"group": GROUP},
    "broker": {"broker": "1"},
    "broker-settings": {"broker": "1"},
}
NAMES = [page.name for page in PAGES]
# Pages with charts, live figures and a table; a page takes ten seconds of CPU.
QUICK = ("overview",)
# In `make test`, test_acts.py checks a light and wide page.
LOOKS = by_tier(((True, 390),), ((False, 1280), (True, 390)))
pytestmark = pytest.mark.xdist_group("browser")


def test_every_subject_is_of_a_page() -> None:
    """If this fails, a page was renamed, and is tested without its subject."""
    assert set(SUBJECTS) <= set(NAMES)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in NAMES]
)
def test_a_page_has_no_fault(dashboard: str, new_tab: Callable[..., Tab], name: str) -> None:
    """If this fails, a page has a panel without data, a text that some users cannot read, or a console error."""
    for dark, width in LOOKS:
        tab = new_tab(dashboard, dark=dark, width=width)
        tab.open(name, **SUBJECTS.get(name, {}))
        tab.settled()
        assert tab.violations() == []
        assert not tab.overflows()


@pytest.mark.full
def test_a_telephone_shows_the_page_in_the_navigation_and_whole_legends(
    dashboard: str, new_tab: Callable[..., Tab]
) -> None:
    """If this fails, users of a telephone do not see on which page they are, or buttons cover the legends of charts."""
    tab = new_tab(dashboard, width=390, is_mobile=True)
    for name in ("storage", "alerts"):
        tab.open(name)
        tab.settled()
        tab.page.wait_for_function(
            """() => {
              const { left, right } = document.querySelector(".nav-link[aria-current]").getBoundingClientRect();
              return left >= 0 && right <= window.innerWidth;
            }"""
        )
    tab.open("storage")
    tab.settled()
    tab.page.wait_for_selector(".js-plotly-plot .legend")
    assert tab.page.locator(".modebar-container .modebar-btn").count() == 0


@pytest.mark.full
def test_charts_do_not_overlap_after_a_resize(dashboard: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, charts cover each other, or are cut, as soon as a telephone is turned or a window grows."""
    tab = new_tab(dashboard, width=390)
    tab.open("requests")
    tab.settled()
    # Whether charts are drawn as wide as their places; and what sticks out of a place in any frame of the screen.
    fit = """() => [...document.querySelectorAll(".chart")].every((place) => {
      const drawn = place.querySelector(".main-svg");
      return drawn && Math.abs(drawn.getBoundingClientRect().width - place.getBoundingClientRect().width) < 1.5;
    })"""
    tab.page.wait_for_function(fit)
    tab.page.evaluate(
        """() => {
          window.most = 0;
          const look = () => {
            for (const drawn of document.querySelectorAll(".chart .main-svg")) {
              const place = drawn.closest(".chart").getBoundingClientRect();
              window.most = Math.max(window.most, drawn.getBoundingClientRect().bottom - place.bottom);
            }
            requestAnimationFrame(look);
          };
          look();
        }"""
    )
    for width in (1280, 768, 390, 1280):
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.wait_for_function(fit)
    assert tab.page.evaluate("window.most") < 1.5
    assert not tab.overflows()


@pytest.mark.full
def test_axes_of_counts_have_whole_numbers_only(dashboard: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, a chart shows a quarter of a transaction, or half a connection."""
    tab = new_tab(dashboard)
    tab.open("transactions")
    tab.settled()
    counts = tab.page.evaluate("[1, 3, 9, 90].map((most) => window.dashboard.core.ticks('', most).ticktext)")
    assert counts == [
        ["0", "1"],
        ["0", "1", "2", "3"],
        ["0", "5"],
        ["0", "25", "50", "75"],
    ]
    assert tab.page.evaluate("window.dashboard.core.ticks('/s', 1).ticktext")[:2] == ["0/s", "0.25/s"]


@pytest.mark.full
def test_a_group_page_is_built_for_the_type_of_its_group(
    cluster: BrokerProcess, tmp_path: Path, new_tab: Callable[..., Tab]
) -> None:
    """If this fails, a link without the type of a group, or with that of another, shows a page without its members."""
    clusters = tmp_path / "clusters.toml"
    clusters.write_text(f'[clusters.main]\nbootstrap = "{cluster.bootstrap}"\n')
    # A dashboard that knows the type of a group only from its description.
    code = (
        "import sys; from broker_cy.console import session; from dashboard.cli import main; session.TYPES_AGE_S = -1; "
        "sys.exit(main())"
    )
    with running_dashboard(
        ["--clusters-file", str(clusters), "--state", str(tmp_path / "state")],
        command=(sys.executable, "-c", code),
        env={"XDG_CONFIG_HOME": str(tmp_path)},
    ) as url:
        tab = new_tab(url)
        for group, query in ((GROUP, {"type": "share"}), ("stopped", {})):
            tab.open("group", group=group, **query)
            tab.page.wait_for_url("**&type=classic")
            tab.panel("Members").wait_for()
            states = tab.settled()
            assert "Records in flight" not in states
            # The address is right from now on, and so is the page.
            tab.page.reload()
            tab.panel("Members").wait_for()
        tab.page.close()


@pytest.mark.full
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/St_Johns"])
def test_charts_and_tables_show_the_same_clock(dashboard: str, new_tab: Callable[..., Tab], zone: str) -> None:
    """If this fails, a spike in a chart and its event in the table have different times."""
    tab = new_tab(dashboard, zone=zone)
    tab.open("overview")
    tab.settled()
    for name in (zone, "UTC"):
        now = datetime.now(ZoneInfo(name))
        tab.page.wait_for_function(
            """(hours) => hours.includes([...document.querySelectorAll(".xtick text")].map(
              (each) => each.textContent.slice(0, 2)).at(0))""",
            arg=[f"{(now - timedelta(minutes=minutes)).hour:02}" for minutes in (0, 12)],
        )
        event = tab.panel("Recent events").locator("tbody td").first.inner_text()
        shown = datetime.fromisoformat(event)
        assert abs(now.replace(tzinfo=None) - shown) < timedelta(minutes=30)
        tab.page.get_by_role("button", name="Times").click()


@pytest.mark.full
def test_one_rebalance(tab: Tab) -> None:
    """If this fails, the list of rebalances has no working links, or the cause of a rebalance is not shown."""
    tab.open("rebalances", group=GROUP)
    tab.settled()
    tab.page.locator(".ag-row a").first.click()
    tab.page.wait_for_url("**/rebalance?*")
    tab.settled()
    assert tab.violations() == []


@pytest.mark.full
def test_a_subject_that_does_not_exist_is_reported(tab: Tab) -> None:
    """If this fails, the page of a deleted topic loads forever, or shows another topic."""
    tab.open("topic", topic="nowhere")
    tab.page.wait_for_selector("[data-state=error]")


@pytest.mark.full
@pytest.mark.parametrize(
    ("page", "query", "panel"),
    [
        ("topic", {"topic": "nowhere"}, "p-facts"),
        ("group", {"group": "nobody"}, "p-state"),
        ("topic-settings", {"topic": "nowhere", "setting": "retention.ms"}, "p-retention-ms"),
    ],
    ids=["topic", "group", "settings"],
)
def test_nothing_is_done_to_a_subject_that_does_not_exist(
    tab: Tab, page: str, query: dict[str, str], panel: str
) -> None:
    """If this fails, the page of a deleted topic or group offers to change it."""
    tab.open(page, **query)
    tab.page.wait_for_selector(f"#{panel} [data-state=error]")
    acts = tab.page.locator(".page-actions [data-act], .panel-setting [data-act]")
    assert acts.count() >= 2
    assert all(each.is_disabled() and each.get_attribute("title") for each in acts.all())
    known = {"topic": TOPIC, "group": GROUP}
    tab.open(page, **{**query, **{name: known[name] for name in query if name in known}})
    tab.settled()
    assert all(each.is_enabled() for each in acts.all())


@pytest.mark.full
def test_links_do_not_load_the_page_again(tab: Tab) -> None:
    """If this fails, each click loads all scripts again, and opens another connection for live data."""
    tab.open("overview")
    tab.settled()
    tab.page.evaluate("window.isSame = true")
    tab.page.get_by_role("link", name="Topics", exact=True).click()
    tab.page.wait_for_url("**/topics")
    tab.page.get_by_role("link", name=TOPIC, exact=True).click()
    tab.page.wait_for_url(f"**/topic?topic={TOPIC}")
    tab.page.wait_for_selector(f"h1:has-text('{TOPIC}')")
    tab.page.go_back()
    tab.page.wait_for_selector("h1:has-text('Topics')")
    assert tab.page.evaluate("window.isSame")
    # No subscription of an earlier page remains.
    tab.settled()


@pytest.mark.full
def test_filter_and_order_are_in_the_address(tab: Tab, dashboard: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, a view cannot be shared, or a table shows only some of the rows that match."""
    tab.open("topics")
    tab.settled()
    tab.page.get_by_label("Filter topics").fill("topic-14")
    tab.page.wait_for_selector(".panel-count:has-text('10 of ')")
    tab.page.get_by_role("columnheader", name="Topic").click()
    tab.page.wait_for_function("() => window.location.search.includes('desc=1')")
    first = tab.page.locator("[row-index='0'] [col-id='topic']")
    first.filter(has_text="topic-149").wait_for()
    other = new_tab(dashboard)
    other.page.goto(tab.page.url)
    other.page.wait_for_selector(".panel-count:has-text('10 of ')")
    other.page.locator("[row-index='0'] [col-id='topic']").filter(has_text="topic-149").wait_for()
