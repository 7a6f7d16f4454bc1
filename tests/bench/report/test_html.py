"""The report in a real browser: it must draw everything, load nothing, and never hide that something failed."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from bench.report import measured, result
from bench.report.html import charts, page
from bench.report.html.entities import entities
from bench.report.result import Document, Pair, ResultError, Run
from tests.support.bench_results import document

WIDTH = 1280
EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>%{x}"


class Opened:
    """A report in the browser, with all its console messages, errors and requests."""

    def __init__(self, chromium: Browser, path: Path, scheme: str = "light") -> None:
        self.context = chromium.new_context(
            viewport={"width": WIDTH, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def undrawn(self) -> list[str]:
        """Return the charts without a line or marker in an svg."""
        found: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll(".plot")]
                .filter((plot) => !plot.querySelector("svg .trace path")).map((plot) => plot.id)"""
        )
        return found


def written(tmp_path: Path, *documents: Document) -> Path:
    paths = []
    for number, each in enumerate(documents):
        paths.append(tmp_path / f"run{number}.json")
        result.write(each, paths[-1])
    out = tmp_path / "report.html"
    page.write_report(paths, out)
    return out


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_a_complaint_or_a_request(chromium: Browser, tmp_path: Path, scheme: str) -> None:
    """A report that needs a network will be blank in ten years."""
    path = written(tmp_path, document())
    opened = Opened(chromium, path, scheme)
    assert opened.complaints == []
    assert opened.requests == [path.as_uri()]
    assert opened.page.locator(".plot").count() == 8  # the ratios, latency by percentile, six over time
    assert opened.undrawn() == []
    # Equal medians are labelled, each in its row.
    assert opened.page.locator("#ratios .textpoint text:visible").count() == 3
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    assert "Complete." in opened.page.inner_text(".state.good")
    opened.context.close()


def test_absolute_figures_and_the_warm_up_stand_beside_the_ratios() -> None:
    """A ratio of 5 may compare two slow brokers, or have a denominator that was still compiling."""
    text = page.render([("a", document())])
    assert "10,000 : 10,000 /s" in text
    assert '<th scope="row" class=name>kafka</th><td>not steady within 60 s</td>' in text
    assert "1,000  4,000  5,000" in text
    assert '<th scope="row" class=name>ours</th><td class=name>steady</td>' in text
    noted = page.render([("a", replace(document(), notes=("the disk was slow",)))])
    assert "<li>compare: the disk was slow</li>" in noted


@pytest.mark.full
def test_documents_stand_side_by_side(chromium: Browser, tmp_path: Path) -> None:
    """`report a.json b.json`: each target of each document has its colour and its column."""
    other = replace(document(), mode="run", pairs=())
    opened = Opened(chromium, written(tmp_path, document(), other))
    assert opened.complaints == []
    assert opened.undrawn() == []
    names = opened.page.locator(".controls button").all_inner_texts()
    assert names == ["run0: ours", "run0: kafka", "run1: ours", "run1: kafka"]
    colours = opened.page.evaluate(
        "() => [...document.querySelectorAll('.swatch')].map((each) => getComputedStyle(each).backgroundColor)"
    )
    assert len(set(colours)) == 4
    opened.context.close()


@pytest.mark.full
def test_reader_hides_a_target_and_chooses_a_label(chromium: Browser, tmp_path: Path) -> None:
    """Forty lines of a matrix in one chart are unreadable."""
    known = document(repeats=1, labels=("100 B, none", "1 KB, lz4"))
    opened = Opened(chromium, written(tmp_path, known))
    lines = opened.page.locator("#time-records_per_s .scatterlayer .trace")
    assert lines.count() == 2
    opened.page.select_option("#label", "1 KB, lz4")
    assert lines.count() == 2
    assert opened.page.evaluate("document.getElementById('time-records_per_s').data[0].meta.label") == "1 KB, lz4"
    opened.page.click("button[data-entity='1']")
    assert lines.count() == 1
    assert opened.page.get_attribute("button[data-entity='1']", "aria-pressed") == "false"
    assert opened.page.locator("#label-p99_ms .scatterlayer .trace").count() == 1
    assert opened.complaints == []
    opened.context.close()


@pytest.mark.full
def test_what_failed_stands_at_the_head_and_has_no_line(chromium: Browser, tmp_path: Path) -> None:
    """A reader must not mistake the rest of a failed comparison for a complete one."""
    known = document()
    failed = Run(
        "kafka", known.runs[1].started, 0, failed="3 errors, the first: error 6", verdicts=("failed: 3 errors",)
    )
    broken = replace(known, runs=(known.runs[0], failed, *known.runs[2:]))
    opened = Opened(chromium, written(tmp_path, broken))
    assert "kafka, pair 1: 3 errors, the first: error 6" in opened.page.inner_text("header .state.bad")
    assert opened.page.locator("#time-records_per_s .scatterlayer .trace").count() == 7
    nothing = Opened(chromium, written(tmp_path, replace(known, runs=(failed,), pairs=(), failed="stopped by Ctrl-C")))
    assert "stopped by Ctrl-C" in nothing.page.inner_text("header .state.bad")
    assert nothing.page.locator(".plot").count() == 0
    assert (opened.complaints, nothing.complaints) == ([], [])
    opened.context.close()
    nothing.context.close()


@pytest.mark.full
def test_text_of_a_document_is_never_code(chromium: Browser, tmp_path: Path) -> None:
    """The report of a document from an unknown source opens in the reader's browser."""
    known = document(repeats=1, labels=(EVIL, "other"))
    evil = replace(
        known,
        mode=EVIL,
        provenance={EVIL: EVIL, "versions": {EVIL: EVIL}},
        workload=replace(known.workload, name=EVIL, file=EVIL, settings={EVIL: [EVIL]}),
        targets={EVIL: replace(known.targets["ours"], version=EVIL), "kafka": known.targets["kafka"]},
        runs=tuple(
            replace(run, target=EVIL if run.target == "ours" else run.target, verdicts=(EVIL,)) for run in known.runs
        ),
        pairs=(Pair("p99_ms", EVIL, "kafka", (0.5,), 0.5, None, 0.95, EVIL, EVIL),),
        failed=EVIL,
    )
    opened = Opened(chromium, written(tmp_path, evil))
    assert opened.page.evaluate("window.evil") is None
    assert opened.page.locator("img").count() == 0
    assert opened.undrawn() == []
    assert opened.complaints == []
    opened.context.close()


def test_repeats_are_merged_exactly_in_the_curve() -> None:
    """The percentile of several runs is not the mean of their percentiles."""
    known = document()
    chart = charts.percentiles(entities([("a", known)]), "latency", "t")
    assert chart is not None
    curve = dict(zip(chart.data[0]["customdata"], chart.data[0]["y"], strict=True))
    # Four runs of 1, 2, 3 and 4 ms, slower by 0 to 3 %: the upper quarter begins at 4 ms.
    assert chart.data[0]["x"][-1] == 4000
    assert curve["50"] == pytest.approx(2.06, rel=0.02)
    assert curve["100"] == pytest.approx(4.12, rel=0.001)


def test_figures_table_shows_median_and_range() -> None:
    text = page.render([("a", document(repeats=3))])
    row: Any = re.search(r'<tr><th scope="row">Broker CPU per GB <span.*?</tr>', text, re.S)
    assert re.findall(r">([\d.,]+)<br>", row[0]) == ["252.500", "505.000"]
    assert "250.000 to 255.000" in row[0]


def test_names_distinguish_equal_files_and_a_bad_document_is_refused(tmp_path: Path) -> None:
    assert page.names([Path("x/a.json"), Path("y/a.json"), Path("b.json")]) == ["a (1)", "a (2)", "b"]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"format": 9}))
    with pytest.raises(ResultError, match=r"bad\.json: format: 9"):
        page.write_report([path], tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


def test_ratio_that_is_zero_has_a_row_but_no_point() -> None:
    """A logarithmic axis has no 0."""
    known = replace(document(), pairs=(measured.pairs_of(document().runs, "ours", "kafka", ["p99_ms"])[0],))
    zero = replace(known.pairs[0], ratios=(0.0,) * 4, median=0.0, interval=None)
    assert charts.ratios([("a", replace(known, pairs=(zero,)))]) is None
    assert "Compared" in page.render([("a", replace(known, pairs=(zero,)))])
