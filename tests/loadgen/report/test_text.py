"""The terminal output: progress during a run, and its summary."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pytest

from loadgen.figures.totals import Totals
from loadgen.report import progress, text
from loadgen.report.progress import Progress
from loadgen.report.result import Result, Verification
from loadgen.run.search import Step
from tests.support.load_results import Load, bad, bad_totals, good, interval


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(result: Result) -> str:
    out = io.StringIO()
    text.show(result, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def passed() -> Result:
    return good(10)


def test_the_last_line_is_the_verdict(passed: Result) -> None:
    """If this fails, a reader has to scroll to see whether a run passed."""
    assert shown(passed).splitlines()[-1] == "Good (exit code 0)"
    lines = shown(bad()).splitlines()
    assert lines[-1] == "Data wrong (exit code 12)"
    assert lines[-5] == "- data wrong: 1 duplicated"


def test_the_summary_names_what_went_wrong() -> None:
    """If this fails, errors, defects or a lost worker are only in files."""
    found = shown(bad())
    for expected in (
        "error: Produce: NOT_LEADER_OR_FOLLOWER: 54",
        "duplicated: broker-load-2: sequence 1841 of producer 3 at offset 3391",
        "worker 2 was lost (no report for 3 s), and with it 8.33% of the load",
        "threshold missed: Produce p99_ms: 445",
        "generator: 3 workers, busiest 0.55 cores, lateness p99 0.2",
    ):
        assert expected in found


def test_figures_compare_with_kafkas_tool(passed: Result) -> None:
    """If this fails, figures cannot be compared with those of kafka-producer-perf-test."""
    line = next(line for line in shown(passed).splitlines() if line.startswith("Produce: "))
    assert line.startswith("Produce: 4000 records, 400.0 records/sec (0.38 MB/sec), ")
    assert line.count(" ms ") == 6


def test_an_interrupted_run_says_so(passed: Result) -> None:
    """If this fails, figures after Ctrl-C look like those of a whole run."""
    lines = shown(replace(passed, ended="interrupted after 12 s of 60 s")).splitlines()
    assert "Interrupted after 12 s of 60 s: these are the figures so far." in lines
    assert lines[-1] == "Good so far (exit code 0)"


def test_a_search_ends_with_its_rate(passed: Result) -> None:
    """If this fails, the rate that a search found is not shown."""
    steps = (Step(1000, 1000, 1.2, ""), Step(1500, 1499.7, 4.0, ""), Step(2250, 1800, 90.0, "p99 is above 10 ms"))
    lines = shown(replace(passed, steps=steps, notes=("worker 1: sent no result",))).splitlines()
    assert lines[2:4] == [
        "rate 2,250/s: reached 1,800.0/s, 90.0 ms, bad: p99 is above 10 ms",
        "the highest rate that met the bound: 1,500/s",
    ]
    assert "note: worker 1: sent no result" in lines
    assert "no rate met the bound" in shown(replace(passed, steps=steps[2:]))


def test_names_with_brackets_are_shown_as_they_are(passed: Result) -> None:
    """If this fails, rich interprets a name as markup, and drops it or raises."""
    odd = replace(
        passed,
        scenario={**passed.scenario, "name": "[red]s[/]"},
        operations={"[/b]op": replace(passed.operations["Produce"], errors={"[x]": 1})},
        verification=Verification(problem="[/]"),
    )
    found = shown(odd)
    for expected in ("[red]s[/]", "[/b]op", "error: [/b]op: [x]: 1", "could not be checked: [/]"):
        assert expected in found


def test_lines_come_each_five_seconds_without_a_terminal() -> None:
    """If this fails, the log of a build is flooded, or silent for an hour."""
    now_s = 0.0
    out = io.StringIO()
    totals = bad_totals(21)
    with Progress("mixed", 60, out, clock=lambda: now_s) as view:
        view.phase("creating topics")
        for second in range(21):
            now_s = float(second)
            view.update(totals, now_s)
    lines = out.getvalue().splitlines()
    assert lines[0] == "mixed: creating topics"
    assert [line.split(",")[0] for line in lines[1:]] == [f"mixed: {at} s" for at in (0, 5, 10, 15, 20)]
    assert lines[-1].startswith("mixed: 20 s, 40 s left, workers 2 (1 lost), lateness p99 0.2")
    assert "errors 45; Produce 570/s p99 49" in lines[-1]


def test_a_terminal_shows_a_table() -> None:
    """If this fails, a user cannot see during a run whether it works as intended."""
    out = Terminal()
    with Progress("mixed", 60, out) as view:
        view.phase("creating topics")
        view.update(bad_totals(20), 20)
    for expected in ("mixed: creating topics", "20 s, 40 s left", "Produce", "JoinGroup", "errors so far"):
        assert expected in out.getvalue()


def test_the_second_shown_is_one_that_all_workers_reported() -> None:
    """If this fails, the rate seems to fall by half each second, until the other worker has reported."""
    chance = random.Random(1)
    totals = Totals()
    assert progress.newest(totals).operations == {}
    for worker in ("a", "b"):
        totals.add(worker, interval(1, {"Produce": Load(10, 1.0)}, chance))
    totals.add("a", interval(2, {"Produce": Load(7, 1.0)}, chance))
    assert progress.newest(totals).operations["Produce"].requests == 20
    totals.workers["b"].lost = "no report for 3 s"
    assert progress.newest(totals).operations["Produce"].requests == 7


def test_lines_begin_with_the_first_figures() -> None:
    """If this fails, a log begins with empty lines, or shows the first figures five seconds late."""
    out = io.StringIO()
    with Progress("mixed", 60, out) as view:
        view.update(Totals(), 0)
        assert out.getvalue() == ""
        totals = Totals()
        totals.add("w", interval(0, {"Produce": Load(10, 1.0)}, random.Random(1)))
        view.update(totals, 1)
    assert "Produce 10/s" in out.getvalue()
