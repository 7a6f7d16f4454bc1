"""The page in a real browser: it draws everything, loads nothing, runs no foreign script, and hides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from spark_analytics.lake import check_writable
from spark_analytics.report import page
from spark_analytics.report.content import (
    MINUTE_MS,
    POINTS_MAX,
    Anomaly,
    Rates,
    Report,
    Spender,
    period_of,
)
from tests.dashboard.browser.tab import Tab
from tests.support.report_content import HOURS, START_MS, cluster, empty, report

EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>%{x}"
# Charts without a line, a bar or a marker.
UNDRAWN = """() => [...document.querySelectorAll(".plot")]
    .filter((plot) => !plot.querySelector("svg .trace path")).map((plot) => plot.id)"""


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Tab]]:
    """Open reports; at the end no tab may have reported a problem or sent a request."""
    opened: list[Tab] = []

    def make(of: Report, *, dark: bool = False, width: int = 1280) -> Tab:
        path = tmp_path / f"{len(opened)}.html"
        page.write(of, path)
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", locale="en-US"
        )
        tab = Tab(context, path.as_uri())
        # A page opened as a file must not request other files.
        tab.page.on("request", lambda request: None if request.url == tab.url else tab.problems.append(request.url))
        opened.append(tab)
        tab.page.goto(path.as_uri())
        tab.page.wait_for_function("!document.querySelector('.plot') || document.querySelector('.plot svg .trace')")
        return tab

    yield make
    for tab in opened:
        tab.close()


@pytest.mark.full
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_everything_is_drawn_and_can_be_read_by_everyone(show: Callable[..., Tab], width: int, dark: bool) -> None:
    """If this fails, a chart is empty, the page is wider than a phone, or a screen reader cannot navigate it."""
    tab = show(report(cluster("a"), cluster("b")), dark=dark, width=width)
    # For each cluster: six charts of throughput, three of lag, and one forecast.
    assert tab.page.locator(".plot").count() == 20
    assert tab.page.evaluate(UNDRAWN) == []
    assert not tab.overflows()
    assert tab.violations() == []


@pytest.mark.full
def test_a_point_says_what_it_is(show: Callable[..., Tab]) -> None:
    """If this fails, a reader cannot tell which broker has the peak, when it was, or how high."""
    tab = show(report())
    plot = tab.page.locator("#c0-topic-records")
    plot.scroll_into_view_if_needed()
    # The point of the second line at noon, within the area that reacts to the mouse.
    x, y = plot.evaluate(
        """(plot) => {
          const { xaxis, yaxis } = plot._fullLayout;
          return [xaxis.d2p("2026-01-05 12:00"), yaxis.d2p(plot.data[1].y[12])];
        }"""
    )
    plot.locator(".nsewdrag").hover(position={"x": x, "y": y})
    text = tab.page.locator("#c0-topic-records .hoverlayer .hovertext").first
    text.wait_for()
    shown = text.text_content() or ""
    assert shown == "topic-22026-01-05 12:00: 2.012k records/s"


@pytest.mark.full
def test_findings_come_first(show: Callable[..., Tab]) -> None:
    """If this fails, a reader has to look through all charts to find what is wrong."""
    tab = show(report())
    head = tab.page.inner_text("header")
    for text in (
        "1 disk full within 30 days: broker 1 /data/a in 7.5 days.",
        "1 group not ok at the end: billing (stalled).",
        "2 anomalies of brokers; the clearest: broker 1: Produce p99 8.1 times",
        "1 hot partition; the hottest: topic-1-3 with 70% of its topic.",
        "made 1,200 records of billing wait (session_timeout, client app)",
        "1 gap of samples, 2 h together",
        "2026-01-05 00:00 UTC",
    ):
        assert text in head
    quiet = replace(empty(), rows={"samples": 1})
    assert "No findings." in show(report(quiet)).page.inner_text("header .state.good")


@pytest.mark.full
def test_what_is_not_known_says_why(show: Callable[..., Tab]) -> None:
    """If this fails, a section without data looks like one without problems."""
    tab = show(report(empty()))
    assert tab.page.locator(".plot").count() == 0
    texts = tab.page.locator(".nothing").all_inner_texts()
    assert len(texts) == 7
    assert "No rebalances in the span." in texts
    assert tab.violations() == []


@pytest.mark.full
def test_statuses_have_words_and_patterns_beside_colours(show: Callable[..., Tab]) -> None:
    """If this fails, a colour-blind user cannot tell a stalled group from a healthy one."""
    tab = show(report())
    strip = tab.page.locator("#c0-status")
    assert set(strip.locator(".bartext").all_text_contents()) == {"ok", "stalled"}
    shapes = strip.evaluate("(plot) => plot.data.map((trace) => trace.marker.pattern.shape)")
    assert len(set(shapes)) == len(shapes) == 2
    assert tab.page.locator("figure:has(#c0-status) .legend li").all_inner_texts() == ["ok", "stalled"]
    row = tab.page.get_by_role("region", name="Groups of main", exact=True).locator("tbody tr").first.inner_text()
    assert row.split("\t") == ["billing", "stalled", "230", "230", "23.0 s", "1", "900", "480"]
    # The hour without commits is a gap without a status.
    runs = strip.evaluate("(plot) => plot.data[0].customdata.filter((each) => each[0] === 'billing').length")
    assert runs == 2


@pytest.mark.full
def test_gaps_are_gaps(show: Callable[..., Tab]) -> None:
    """If this fails, hours without samples look like hours without traffic."""
    tab = show(report())
    values = tab.page.evaluate("document.getElementById('c0-node-in').data[1].y")
    assert [hour for hour in range(HOURS) if values[hour] is None] == [5, 6]
    gaps = tab.page.get_by_role("region", name="Gaps of samples").locator("tbody tr").all_inner_texts()
    assert [each.split("\t") for each in gaps] == [["broker 2", "2026-01-05 05:00", "2026-01-05 07:00", "2 h"]]


@pytest.mark.full
def test_marks_have_the_numbers_of_the_table(show: Callable[..., Tab]) -> None:
    """If this fails, a mark above a chart has the number of another anomaly."""
    tab = show(report())
    marks = {
        name: tab.page.locator(f"#c0-{name} .textpoint text").all_text_contents()
        for name in ("node-in", "node-cpu", "node-out")
    }
    assert marks == {"node-in": ["1"], "node-cpu": ["2"], "node-out": []}
    rows = tab.page.get_by_role("region", name="Anomalies").locator("tbody tr").all_inner_texts()
    assert rows[1].split("\t")[:3] == [
        "2", "2026-01-05 12:00", "broker 2: CPU 2.0 times what is usual at this hour for 60 min",
    ]  # fmt: skip


@pytest.mark.full
def test_reader_hides_a_broker_of_one_cluster(show: Callable[..., Tab]) -> None:
    """If this fails, a button does nothing, or hides the brokers of another cluster."""
    tab = show(report(cluster("a"), cluster("b")))
    lines = {name: tab.page.locator(f"#{name} .scatterlayer .trace") for name in ("c0-node-out", "c1-node-out")}
    assert {name: each.count() for name, each in lines.items()} == {"c0-node-out": 2, "c1-node-out": 2}
    tab.page.get_by_role("button", name="broker 1").first.click()
    assert {name: each.count() for name, each in lines.items()} == {"c0-node-out": 1, "c1-node-out": 2}
    assert tab.page.locator("#c0-topic-in .scatterlayer .trace").count() == 3


@pytest.mark.full
def test_text_of_a_lake_is_never_code(show: Callable[..., Tab]) -> None:
    """If this fails, a client can choose a group id that runs code in the browser of the report's reader."""
    known = cluster()
    evil = replace(
        known,
        nodes=tuple(replace(each, name=EVIL) for each in known.nodes),
        topics=tuple(replace(each, name=EVIL) for each in known.topics),
        groups=tuple(replace(each, name=EVIL) for each in known.groups),
        rebalances=tuple(
            replace(each, group=EVIL, cause=EVIL, members=(EVIL,), clients=(EVIL,) * 4, hosts=(EVIL,))
            for each in known.rebalances
        ),
        spenders=(Spender("host", EVIL, 1, 1.0, 1.0, 1.0),),
        hot=tuple(replace(each, topic=EVIL) for each in known.hot),
        uneven=tuple(replace(each, topic=EVIL) for each in known.uneven),
        anomalies=tuple(replace(each, words=EVIL) for each in known.anomalies),
        forecasts=tuple(replace(each, topic=EVIL) for each in known.forecasts),
        disks=tuple(replace(each, path=EVIL, reason=EVIL) for each in known.disks),
    )
    tab = show(replace(report(replace(evil, name=EVIL), left_out=(EVIL,)), lake=EVIL, span=EVIL))
    assert tab.page.evaluate("window.evil") is None
    assert tab.page.locator("img").count() == 0
    assert tab.page.evaluate(UNDRAWN) == []
    assert EVIL in tab.page.get_by_role("region", name=f"Rebalances of {EVIL}", exact=True).inner_text()


@pytest.mark.full
def test_only_the_scripts_of_the_page_run(chromium: Browser, tmp_path: Path) -> None:
    """If this fails, an injected script runs in the page."""
    text = page.render(report())
    path = tmp_path / "changed.html"
    path.write_text(
        text.replace("</main>", "<script>window.evil = 1</script><b onclick='window.evil = 1'>b</b></main>")
    )
    context = chromium.new_context()
    opened = context.new_page()
    refused: list[str] = []
    opened.on("console", lambda message: refused.append(message.text))
    opened.goto(path.as_uri())
    opened.wait_for_function("document.querySelector('.plot svg .trace')")
    opened.locator("b").last.click()
    assert opened.evaluate("window.evil") is None
    assert any("Content Security Policy" in each for each in refused)
    context.close()


@pytest.mark.full
def test_a_page_with_the_most_of_everything_is_small(show: Callable[..., Tab]) -> None:
    """If this fails, the report on a large cluster is too large for a browser, or does not show what it leaves out."""
    many = tuple(123_456.789 + each for each in range(POINTS_MAX))
    lines = tuple(Rates(f"broker {each}", many, many, many, many) for each in range(8))
    known = cluster()
    full = replace(
        known,
        last_ms=START_MS + POINTS_MAX * 3_600_000 - 1,
        nodes=lines,
        nodes_total=90,
        topics=tuple(replace(each, cpu_share=()) for each in lines),
        topics_total=50_000,
        groups=tuple(replace(known.groups[0], name=f"g{each}") for each in range(7)),
        groups_total=5_000,
        rebalances=known.rebalances * 20,
        rebalances_total=700,
        anomalies=tuple(Anomaly(1, "x", START_MS + at * MINUTE_MS, START_MS, 1, 9.0, f"w{at}") for at in range(100)),
        anomalies_total=1_000,
        hot_total=21,
        disks_total=51,
    )
    text = page.render(report(*(replace(full, name=f"c{each}") for each in range(6)), left_out=("x", "y")))
    assert len(text) < 6_000_000
    tab = show(report(full, left_out=("x", "y")))
    shown = tab.page.inner_text("main")
    for words in (
        "The first 7 of 5,000: those that were longest not ok",
        "The first 20 of 700: the most expensive by records that waited.",
        "The first 100 of 1,000: those with the highest scores",
        "The first 1 of 21: the hottest.",
        "The first 2 of 51: those that are full first.",
        "2 clusters left out: x, y. A page has at most 6",
        "at most 1,000 for each line",
    ):
        assert words in shown


def test_periods_follow_from_the_length_of_the_span() -> None:
    """If this fails, a report on an hour has one point, or one on a year more than a browser can draw."""
    hour_ms = 3_600_000
    spans = {2 * hour_ms: 1, 20 * hour_ms: 5, 7 * 24 * hour_ms: 15, 30 * 24 * hour_ms: 60, 365 * 24 * hour_ms: 1_440}
    for span_ms, minutes in spans.items():
        assert period_of(START_MS, START_MS + span_ms) == minutes * MINUTE_MS
        assert span_ms / period_of(START_MS, START_MS + span_ms) <= POINTS_MAX


def test_a_page_that_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    """If this fails, a typing error in --out is only noticed after an hour, or a failed write loses the old page."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        check_writable(tmp_path / "file")
    check_writable(tmp_path / "new" / "deeper")
    page.write(report(), tmp_path / "new" / "report.html")
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["report.html"]
