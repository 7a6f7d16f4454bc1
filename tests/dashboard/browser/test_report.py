"""The page with the report of broker-analytics in a browser: in its frame, with its sandbox, and without a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_analytics.report import page
from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.dashboard import running_dashboard
from tests.support.report_content import report

pytestmark = pytest.mark.full

# The page needs no cluster.
AWAY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report-dash")


@pytest.fixture(scope="module")
def with_report(state: Path) -> Iterator[str]:
    """The address of a dashboard that shows the file report.html of `state`."""
    clusters = state / "clusters.toml"
    clusters.write_text(f'[clusters.{CLUSTER}]\nbootstrap = "{AWAY}"\n')
    options = [
        "--clusters-file",
        str(clusters),
        "--state",
        str(state / "state"),
        "--report",
        str(state / "report.html"),
    ]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
        yield url


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_is_drawn_in_its_frame(
    with_report: str, state: Path, new_tab: Callable[..., Tab], dark: bool
) -> None:
    """If this fails, the policy of the dashboard keeps the report from being drawn, or the report can read the cookies
    of its viewer.
    """
    page.write(report(), state / "report.html")
    tab = new_tab(with_report, dark=dark)
    tab.open("report")
    frame = tab.page.frame_locator("iframe.report-frame")
    frame.locator(".plot svg .trace").first.wait_for()
    assert frame.locator("h1").inner_text() == "Activity of the cluster"
    inner = tab.page.frames[1]
    assert inner.evaluate("self.origin") == "null"
    assert inner.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(16, 19, 23)" if dark else "rgb(245, 246, 248)"
    )
    assert tab.page.locator("nav.nav a[aria-current=page]").inner_text() == "Report"
    assert tab.violations() == []
    tab.page.goto(f"{tab.url}/report")
    tab.page.wait_for_selector(".plot svg .trace")


def test_without_a_file_the_page_says_how_to_make_one(
    with_report: str, state: Path, new_tab: Callable[..., Tab]
) -> None:
    """If this fails, a report that is configured but does not exist yet shows an empty frame."""
    (state / "report.html").unlink(missing_ok=True)
    tab = new_tab(with_report)
    tab.open("report")
    assert tab.page.get_by_role("alert").inner_text() == "report.html does not exist yet."
    assert "broker-analytics report --lake LAKE --out report.html" in tab.page.inner_text("main")
    assert tab.page.locator("iframe").count() == 0
    assert tab.violations() == []
