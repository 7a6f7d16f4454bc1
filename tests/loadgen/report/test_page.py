"""The page of a run in a real browser: it must draw everything, load nothing, and hide no failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from loadgen.figures.totals import Totals
from loadgen.report import build, charts, page
from loadgen.report.result import Event, Result, Verification
from loadgen.run.search import Step
from tests.dashboard.browser.tab import Tab
from tests.support.load_results import ORIGIN, bad, good, good_totals, partitions, scenario

EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>%{x}"
# Charts without a line, a bar or a marker.
UNDRAWN = """() => [...document.querySelectorAll(".plot")]
    .filter((plot) => !plot.querySelector("svg .trace path")).map((plot) => plot.id)"""


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return {"good": good(20), "bad": bad()}


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Tab]]:
    """Open results; at the end no tab may have reported a problem or sent a request."""
    opened: list[Tab] = []

    def make(result: Result, *, dark: bool = False, width: int = 1280) -> Tab:
        path = tmp_path / f"{len(opened)}.html"
        page.write(result, path)
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
@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [("bad", 1280, False), ("bad", 1280, True), ("bad", 390, False), ("good", 1280, False), ("good", 390, True)],
)
def test_everything_is_drawn_and_can_be_read_by_everyone(
    show: Callable[..., Tab], results: dict[str, Result], name: str, width: int, dark: bool
) -> None:
    """If this fails, a chart is empty, the page is wider than a phone, or a screen reader cannot navigate it."""
    tab = show(results[name], dark=dark, width=width)
    assert tab.page.locator(".plot").count() == (8 if name == "bad" else 6)
    assert tab.page.evaluate(UNDRAWN) == []
    assert not tab.overflows()
    assert tab.violations() == []


@pytest.mark.full
def test_the_verdict_comes_first(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a reader of a failed run sees figures before the reason not to trust them."""
    tab = show(results["bad"])
    head = tab.page.inner_text("header .state")
    assert head.startswith("Data wrong.")
    for text in ("1 duplicated", "worker 2 was lost", "8.33% of the load", "Produce p99_ms: 445", "error_share"):
        assert text in head
    assert "Good." in show(results["good"]).page.inner_text("header .state.good")


@pytest.mark.full
def test_an_interrupted_run_says_so_at_the_head(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, the page of a run interrupted after 12 s looks like that of a whole run."""
    tab = show(replace(results["good"], ended="interrupted after 12 s of 60 s", verification=None))
    assert "Interrupted after 12 s of 60 s" in tab.page.inner_text("header .state.warn")
    assert "does not ask for a check" in tab.page.inner_text("main")


@pytest.mark.full
def test_a_search_shows_its_rate_and_notes_stand_at_the_head(
    show: Callable[..., Tab], results: dict[str, Result]
) -> None:
    """If this fails, the page of a search has the figures of a rate, but not the rate itself."""
    steps = (Step(1000, 1000, 1.2, ""), Step(2250, 1800, None, "p99 is above 10 ms"))
    tab = show(replace(results["good"], steps=steps, notes=("worker 1: sent no result",)))
    assert "The highest rate that met the bound: 1,000/s." in tab.page.inner_text("main")
    rows = tab.page.get_by_role("region", name="Rates of the search").locator("tbody tr")
    assert rows.last.inner_text().split("\t") == ["2,250", "bad", "p99 is above 10 ms", "1,800.0", "-"]
    assert "worker 1: sent no result" in tab.page.inner_text("header")
    assert tab.violations() == []


@pytest.mark.full
def test_data_that_was_not_checked_is_not_called_wrong(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, the page reports lost records although they could not be checked."""
    tab = show(replace(results["good"], verification=Verification(problem="partition 2 has no leader")))
    head = tab.page.inner_text("header .state.bad")
    assert "Data not checked." in head
    assert "The data could not be checked: partition 2 has no leader." in head


@pytest.mark.full
def test_tables_say_what_the_charts_show(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a user who cannot see the charts does not learn of the stall, the events, or the defects."""
    tab = show(results["bad"])
    tab.page.get_by_text("The charts over time as a table").click()
    rows = tab.page.get_by_role("region", name="The run over time").locator("tbody tr")
    stall = rows.filter(has=tab.page.get_by_role("rowheader", name="19", exact=True)).filter(has_text="Produce")
    assert stall.inner_text().split("\t")[-1] == "33"
    events = tab.page.get_by_role("region", name="Events", exact=True).inner_text()
    assert "session of readers-1 expired" in events
    data = tab.page.get_by_role("region", name="Verification by partition").locator("tbody tr").first.inner_text()
    assert data.split("\t")[:4] == ["broker-load-2", "wrong", "0", "1"]
    assert "duplicated: broker-load-2: sequence 1841 of producer 3 at offset 3391" in tab.page.inner_text("main")
    workers = tab.page.get_by_role("region", name="Workers").inner_text()
    assert "lost after second 44: no report for 3 s; 8.33% of the load is missing" in workers


@pytest.mark.full
def test_reader_hides_an_operation_and_chooses_the_service_time(
    show: Callable[..., Tab], results: dict[str, Result]
) -> None:
    """If this fails, the buttons above the charts do nothing."""
    tab = show(results["good"])
    lines = tab.page.locator("#percentiles .scatterlayer .trace")
    assert lines.count() == 3
    tab.page.select_option("#label", charts.SERVICE)
    assert lines.count() == 3
    assert tab.page.evaluate("document.getElementById('percentiles').data[0].meta.label") == charts.SERVICE
    tab.page.get_by_role("button", name="Fetch").click()
    assert lines.count() == 2
    assert tab.page.locator("#time-p99_ms .scatterlayer .trace").count() == 2


@pytest.mark.full
def test_events_mark_every_chart_over_time(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a reader cannot see that a rebalance is the reason of a spike."""
    tab = show(results["bad"])
    texts = tab.page.evaluate(
        """() => [...document.querySelectorAll("[id^=time-]")].map((plot) =>
            [...plot.querySelectorAll(".textpoint text")].map((each) => each.textContent))"""
    )
    assert texts == [["1-3", "4-5", "6"]] * 6
    assert tab.page.locator("#time-p99_ms .shapelayer path").count() == 3


def test_answers_after_the_end_are_no_part_of_a_rate(results: dict[str, Result]) -> None:
    """If this fails, each chart of rates ends with a drop to 0 that the cluster did not cause."""
    known = results["good"]
    late = replace(known, seconds=known.series.t_s[-1])
    rates, *latencies = charts.over_time(late)
    assert rates.id == "time-requests_per_s"
    assert all(line["x"][-1] == late.seconds - 1 for line in rates.data)
    assert max(line["x"][-1] for line in latencies[0].data) == late.seconds


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_of_events_do_not_cover_each_other(show: Callable[..., Tab], width: int) -> None:
    """If this fails, the numbers above the charts of a group that churns cannot be read."""
    found = build.build(
        scenario(), good_totals(60), seconds=60, bootstrap="h:1", command=["x"], origin=ORIGIN,
        events=[Event(at / 2, "Rebalance", f"generation {at}") for at in range(120)],
    )  # fmt: skip
    tab = show(found, width=width)
    boxes = tab.page.evaluate(
        """() => [...document.querySelectorAll("#time-p99_ms .textpoint text")]
            .filter((each) => getComputedStyle(each).visibility === "visible")
            .map((each) => each.getBoundingClientRect()).map(({left, right}) => [left, right])"""
    )
    assert len(boxes) >= 4
    assert all(right < left for (_, right), (left, _) in pairwise(boxes))


@pytest.mark.full
def test_a_legend_shows_the_dashes_of_lines(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, the first and the seventh operation look the same in the legend, but not in the charts."""
    known = results["good"]
    figures = known.operations["Produce"]
    tab = show(replace(known, operations={f"operation {number}": figures for number in range(7)}))
    swatches = tab.page.locator(".controls .swatch").evaluate_all(
        "(all) => all.map((each) => getComputedStyle(each).background)"
    )
    assert len(set(swatches)) == 7


@pytest.mark.full
def test_texts_of_tables_are_not_squeezed_on_a_telephone(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a text has one word in each line, and a row is higher than the screen."""
    tab = show(results["bad"], width=390)
    state = tab.page.get_by_role("region", name="Workers").locator("td").filter(has_text="no report for 3 s")
    assert state.evaluate("(cell) => cell.getBoundingClientRect().width") > 150


@pytest.mark.full
def test_many_events_and_partitions_stay_readable(show: Callable[..., Tab]) -> None:
    """If this fails, the page of a cluster with 2,000 partitions or a group that churns cannot be scrolled through."""
    sound, wrong = partitions()[0], partitions(lost=1)[2]
    many = tuple(replace(wrong if number == 150 else sound, partition=number) for number in range(200))
    found = build.build(
        scenario(), good_totals(30), seconds=30, bootstrap="h:1", command=["x"], origin=ORIGIN,
        events=[Event(at / 40, "Rebalance", f"generation {at}") for at in range(1200)], verification=Verification(many),
    )  # fmt: skip
    assert len(charts.marks(found)) <= 21
    tab = show(found)
    rows = tab.page.get_by_role("region", name="Verification by partition").locator("tbody tr")
    assert rows.count() == 51
    assert rows.first.inner_text().startswith("broker-load-150")
    text = tab.page.inner_text("main")
    assert "149 further partitions have no defect." in text
    assert "700 later events are not shown." in text


@pytest.mark.full
def test_text_of_a_result_is_never_code(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a foreign result runs code in the reader's browser."""
    known = results["bad"]
    evil = replace(
        known,
        scenario={**known.scenario, "name": EVIL, "description": EVIL, EVIL: {EVIL: [EVIL]}},
        bootstrap=EVIL,
        operations={EVIL: replace(known.operations["Produce"], errors={EVIL: 3})},
        series=replace(
            known.series,
            operations={EVIL: replace(known.series.operations["Produce"], errors={EVIL: ((20, 3),)})},
        ),
        counts={EVIL: 1},
        workers=tuple(replace(each, host=EVIL, lost=EVIL) for each in known.workers),
        events=(Event(3.0, EVIL, EVIL),),
        verification=Verification(problem=EVIL),
        generator=replace(known.generator, reasons=(EVIL,)),
        provenance={EVIL: EVIL, "versions": {EVIL: EVIL}},
        ended=EVIL,
    )
    tab = show(evil)
    assert tab.page.evaluate("window.evil") is None
    assert tab.page.locator("img").count() == 0
    assert tab.page.evaluate(UNDRAWN) == []


@pytest.mark.full
def test_a_run_without_figures_has_a_page(show: Callable[..., Tab]) -> None:
    """If this fails, Ctrl-C in the first second leaves no page, or a broken one."""
    empty = build.build(
        scenario(), Totals(), seconds=0, bootstrap="h:1", command=["x"], origin=ORIGIN, ended="interrupted"
    )
    tab = show(empty)
    assert tab.page.locator(".plot").count() == 0
    assert "The generator was the limit: no operation was performed." in tab.page.inner_text("header")
    assert tab.violations() == []


def test_more_errors_than_colours_are_told_together(results: dict[str, Result]) -> None:
    """If this fails, the chart of errors has two errors in one colour, or drops some."""
    known = results["bad"].series
    produce = replace(known.operations["Produce"], errors={f"E{number}": ((5, 20 - number),) for number in range(9)})
    found = replace(results["bad"], series=replace(known, operations={"Produce": produce}))
    assert charts.error_names(found) == ["E0", "E1", "E2", "E3", "E4", "4 others"]
    (chart,) = [each for each in charts.over_time(found) if each.id == "time-errors"]
    assert [sum(trace["y"]) for trace in chart.data if trace["type"] == "bar"] == [
        20,
        19,
        18,
        17,
        16,
        15 + 14 + 13 + 12,
    ]


@pytest.mark.full
def test_page_fits_paper(show: Callable[..., Tab], results: dict[str, Result]) -> None:
    """If this fails, a printed page has dark surfaces or truncated charts."""
    tab = show(results["bad"], dark=True)
    # Browsers print with the light scheme, independent of the scheme on the screen.
    tab.page.emulate_media(media="print", color_scheme="light")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.page.wait_for_function(
        """() => [...document.querySelectorAll(".plot")].every((plot) =>
            plot.querySelector("svg").getBoundingClientRect().width <= plot.getBoundingClientRect().width + 1)"""
    )
