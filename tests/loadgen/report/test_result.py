"""The result of a run: its figures, its exit code, its JSON. Pipelines use them to decide whether a change is
released.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.measuring import hdr
from loadgen.figures.totals import Totals
from loadgen.report import build, result
from loadgen.report.measured import OperationFigures
from loadgen.report.result import Event, Generator, Partition, Result, ResultError, ThresholdVerdict, Verification
from loadgen.run.search import Step
from loadgen.scenario.model import Threshold
from tests.support.load_results import ORIGIN, Load, bad, good, good_totals, interval, partitions, scenario


@pytest.fixture(scope="module")
def bad_result() -> Result:
    return bad()


@pytest.fixture(scope="module")
def good_result() -> Result:
    return good(10)


def test_json_gives_the_same_result_back(tmp_path: Path, bad_result: Result, good_result: Result) -> None:
    """If this fails, `broker-load report` shows another run than the one that was measured."""
    stopped = replace(
        good_result, verification=None, lateness=None, ended="interrupted", steps=(Step(9.0, 8.5, None, "slow"),)
    )
    for each in (bad_result, good_result, stopped):
        result.write(each, tmp_path / "result.json")
        assert result.read(tmp_path / "result.json") == each
    assert json.loads((tmp_path / "result.json").read_text())["schema"] == "broker-load/1"


def test_figures_are_those_of_the_intervals(good_result: Result) -> None:
    """If this fails, the rates or latencies of a report are wrong."""
    produce = good_result.operations["Produce"]
    assert (produce.requests, produce.records, produce.bytes) == (4000, 4000, 4_000_000)
    assert (produce.requests_per_s, produce.mb_per_s, produce.error_share) == (400, 0.4, 0)
    assert produce.latency is not None
    assert produce.latency.p50_ms == pytest.approx(1.8, rel=0.05)
    assert hdr.decode(produce.latency.hdr).get_total_count() == 4000
    assert good_result.series.t_s == tuple(range(10))
    assert set(good_result.series.operations["Produce"].requests_per_s) == {400.0}
    assert good_result.series.workers == (2,) * 10


def test_errors_count_beside_what_succeeded(bad_result: Result) -> None:
    """If this fails, a share of errors can be above 1, or their seconds are wrong."""
    joins = bad_result.operations["JoinGroup"]
    assert joins.errors == {"REBALANCE_IN_PROGRESS": 24}
    assert joins.error_share == 24 / (24 + joins.requests)
    assert bad_result.series.operations["JoinGroup"].errors == {"REBALANCE_IN_PROGRESS": ((19, 12), (40, 12))}


def test_a_lost_worker_is_marked_with_what_it_misses(bad_result: Result) -> None:
    """If this fails, figures of a part of the load look like those of the whole load."""
    lost = bad_result.workers[2]
    assert (lost.lost, lost.last_second, lost.host) == ("no report for 3 s", 44, "load-3")
    assert lost.missing_share == pytest.approx(0.25 / 3)
    assert [each.missing_share for each in bad_result.workers[:2]] == [0, 0]


def test_figures_by_the_names_of_thresholds(bad_result: Result, good_result: Result) -> None:
    """If this fails, a threshold of a scenario is always missed, because its figure is reported as unknown."""
    operation = {
        name: bad_result.figure("Produce", name)
        for name in (
            *(f"{each}_ms" for each in ("p50", "p75", "p90", "p95", "p99", "p999", "p9999", "mean", "max")),
            *("error_share", "errors", "rate", "records_rate", "requests"),
        )
    }
    assert None not in operation.values()
    assert (operation["errors"], operation["requests"]) == (66, bad_result.operations["Produce"].requests)
    run = {
        name: bad_result.figure("", name)
        for name in (
            *("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms", "hub_lag_p99_ms", "error_share", "queued_share"),
            *("workers_lost", "lost", "duplicated", "reordered", "unknown"),
        )
    }
    assert None not in run.values()
    assert (run["workers_lost"], run["duplicated"], run["unknown"]) == (1, 1, 80)
    assert bad_result.figure("Absent", "p99_ms") is None
    assert bad_result.figure("Produce", "colour") is None
    assert bad_result.figure("", "colour") is None
    for unchecked in (None, Verification(problem="no leader"), Verification(partitions(not_checkable=1))):
        assert replace(good_result, verification=unchecked).figure("", "lost") is None


MISSED = ThresholdVerdict(
    Threshold("Produce", "p99_ms", most=1.0), 2.0, False, "Produce p99_ms: 2 (expected: at most 1)"
)
MET = replace(MISSED, value=0.5, is_met=True, text="Produce p99_ms: 0.5 (expected: at most 1)")


@pytest.mark.parametrize("is_missed", [False, True])
@pytest.mark.parametrize("is_limit", [False, True])
@pytest.mark.parametrize(
    ("data", "is_wrong"),
    [
        (None, False),
        (Verification(partitions()), False),
        (Verification(partitions(lost=2)), True),
        (Verification(partitions(damaged=1)), True),
        (Verification(partitions(unknown_present=5, foreign=9, unclaimed=1)), False),
        (Verification(problem="partition 2 has no leader"), True),
        # A broker that deletes acknowledged records reports that retention did it.
        (Verification(partitions(not_checkable=1)), True),
    ],
)
def test_exit_code_is_the_gravest(
    good_result: Result, data: Verification | None, is_wrong: bool, is_limit: bool, is_missed: bool
) -> None:
    """If this fails, a build passes although data was lost, or a slow generator fails it as if the cluster were
    slow.
    """
    found = replace(
        good_result,
        verification=data,
        generator=Generator(reasons=("the hub stood",) if is_limit else ()),
        thresholds=(MET, MISSED) if is_missed else (MET,),
    )
    assert found.exit_code == (12 if is_wrong else 11 if is_limit else 10 if is_missed else 0)
    # The deciding reason hides no other one.
    assert len(found.findings) == is_wrong + is_limit + is_missed
    assert found.to_dict()["exit_code"] == found.exit_code


def test_headlines(good_result: Result) -> None:
    """If this fails, the first words of a report contradict its exit code."""
    limited = replace(good_result, generator=Generator(reasons=("x",)))
    wrong = Verification(partitions(lost=2, reordered=1200))
    headlines = {
        "Good": good_result,
        "Good so far": replace(good_result, ended="interrupted after 3 s of 60 s"),
        "1 of 2 thresholds missed": replace(good_result, thresholds=(MET, MISSED)),
        "The generator was the limit": limited,
        "Data wrong": replace(limited, verification=wrong),
        "Data not checked": replace(limited, verification=Verification(problem="no leader")),
    }
    assert {text: each.headline for text, each in headlines.items()} == {text: text for text in headlines}
    assert headlines["Data wrong"].findings[0] == "data wrong: 2 lost, 1,200 reordered"
    assert headlines["Data not checked"].findings[0] == "the data could not be checked: no leader"


def test_an_interrupted_run_says_so() -> None:
    """If this fails, Ctrl-C after 12 s leaves a result that looks like one of a minute."""
    of = scenario(60)
    ended = build.interrupted(12.3, of)
    assert ended == "interrupted after 12 s of 60 s"
    found = build.build(of, good_totals(12), seconds=12.3, bootstrap="h:1", command=["x"], origin=ORIGIN, ended=ended)
    assert (found.ended, found.exit_code, found.headline) == (ended, 0, "Good so far")
    assert found.operations["Produce"].requests_per_s == pytest.approx(4800 / 12.3)
    assert Result.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_what_was_verified_is_read_from_its_plain_data() -> None:
    """If this fails, the findings of loadgen.verify do not reach the report."""
    counts = {"acknowledged": 10, "read": 9, "lost": 1, "duplicated": 0, "unknown_present": 0}
    example = {"producer": 1, "partition": 0, "sequence": 7, "offset": None, "by_batches": False, "topic": "t"}
    plain = {
        "good": False, "seconds": 1.5, "total": counts,
        "partitions": [
            {
                "topic": "t", "partition": 0, "start": 0, "end": 9, "counts": counts, "examples": {"lost": [example]},
                "notes": ["a transaction is open from offset 8 on"],
            }
        ],
    }  # fmt: skip
    found = Verification.of(plain)
    assert (found.is_good, found.text, found.seconds) == (False, "1 lost", 1.5)
    assert str(found.partitions[0].examples["lost"][0]) == "t-0: sequence 7 of producer 1"
    with pytest.raises(ResultError, match=r"verification\.seconds: 'x' is wrong \(allowed: a number\)"):
        Verification.of({**plain, "seconds": "x"})


def test_provenance_names_what_ran(good_result: Result) -> None:
    """If this fails, a reader cannot find out which version and command made the figures."""
    found = build.provenance_of(["broker-load", "run", "--scenario", "a b"], {"cluster": "Apache Kafka 4.3.1"})
    assert found["command"] == "broker-load run --scenario 'a b'"
    assert found["versions"]["cluster"] == "Apache Kafka 4.3.1"
    assert {"locust", "gevent"} <= found["versions"].keys()
    assert good_result.scenario["users"][0]["rate"] == "4000/s"
    assert good_result.command.startswith("broker-load run")


def test_events_are_bounded_and_ordered() -> None:
    """If this fails, a run of several days with a group that never settles makes a page that no browser can open."""
    events = [Event(float(at), "k", "t") for at in range(build.EVENTS_MAX + 7, 0, -1)]
    found = build.build(
        scenario(), good_totals(2), seconds=2, bootstrap="h:1", command=["x"], origin=ORIGIN, events=events
    )
    assert (len(found.events), found.events_left_out) == (build.EVENTS_MAX, 7)
    assert [each.second for each in found.events[:2]] == [1.0, 2.0]


def _set(path: str, value: Any) -> Any:
    def change(document: Any) -> None:
        *inner, last = path.split("/")
        for each in inner:
            document = document[int(each) if each.isdigit() else each]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_set("schema", "broker-load/2"), r"schema: 'broker-load/2' cannot be read \(allowed: 'broker-load/1'\)"),
        (_set("seconds", "long"), r"seconds: 'long' is wrong \(allowed: a number\)"),
        (_set("queued", 1.5), r"queued: 1.5 is wrong \(allowed: a whole number\)"),
        (_set("queued", True), r"queued: True is wrong"),
        (_set("ended", 3), r"ended: 3 is wrong \(allowed: a text\)"),
        (_set("workers/1/host", None), r"workers\[1\]\.host: None is wrong \(allowed: a text\)"),
        (_set("colour", "red"), r"colour: unknown key \(allowed: scenario, "),
        (_set("operations/Produce/latency/hdr", "AAAA"), r"operations\.Produce\.latency\.hdr: not an HdrHistogram"),
        (_set("series/queued", [1]), r"series\.queued: 1 values \(allowed: 10, one for each of t_s\)"),
        (_set("series/operations/Produce/p99_ms", []), r"series\.operations\.Produce\.p99_ms: 0 values"),
        (_set("thresholds/0/is_met", "no"), r"thresholds\[0\]\.is_met: 'no' is wrong \(allowed: true or false\)"),
        (lambda document: document.pop("bootstrap"), "bootstrap: is missing"),
        (lambda document: document.pop("schema"), "not a result of broker-load"),
        (
            _set("series/operations/Produce/errors", {"E": [[1]]}),
            r"errors\.E\[0\]: \[1\] is wrong \(allowed: a list of 2",
        ),
        (_set("verification", "good"), r"verification: 'good' is wrong \(allowed: an object\)"),
        (_set("events", {}), r"events: \{\} is wrong \(allowed: a list\)"),
    ],
)
def test_a_file_of_another_form_is_refused_by_key(good_result: Result, change: Any, text: str) -> None:
    """If this fails, a damaged or newer file makes a page with wrong figures, or a stack trace."""
    document = copy.deepcopy(json.loads(json.dumps(good_result.to_dict())))
    change(document)
    with pytest.raises(ResultError, match=text):
        Result.from_dict(document)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """If this fails, an error does not say which of several files is wrong."""
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "infinite.json").write_text('{"schema": "broker-load/1", "seconds": Infinity}')
    for name, text in (("absent", "cannot be read"), ("no", "not JSON"), ("infinite", "is missing")):
        with pytest.raises(ResultError, match=rf"{name}\.json: .*{text}"):
            result.read(tmp_path / f"{name}.json")


def test_reports_import_neither_gevent_nor_locust() -> None:
    """If this fails, making a page of a result patches the whole process, and takes a second longer to start."""
    # The parser of durations and sizes, the settings of payloads, and the parts of reports, are shared by programs, and
    # import nothing else. Extension modules share code, and classes share the code of their methods.
    client = ("", ".quantities", ".toml_values", ".payload", ".payload.settings")
    allowed = (
        "broker_cy",
        *(f"broker_cy.client{name}" for name in client),
        "broker_cy.core",
        "broker_cy.core.classes",
        "broker_cy.core.cython_shared",
    )
    code = (
        "import sys; from loadgen.report import build, junit, page, progress, text;"
        f"print([name for name in sys.modules if name.split('.')[0] in ('gevent', 'locust', 'broker_cy')"
        f" and name not in {allowed} and not name.startswith('broker_cy.reporting')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_empty_run_has_a_result() -> None:
    """If this fails, Ctrl-C in the first second ends with a stack trace."""
    found = build.build(
        scenario(),
        Totals(),
        seconds=0.0,
        bootstrap="h:1",
        command=["x"],
        origin=ORIGIN,
        ended="interrupted",
    )
    assert (found.exit_code, found.series.t_s) == (11, ())
    assert not any(each.requests or each.latency for each in found.operations.values())
    assert Result.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_types_are_those_of_the_json(good_result: Result) -> None:
    """If this fails, reading and building disagree on a field."""
    assert isinstance(good_result.operations["Produce"], OperationFigures)
    assert good_result.verification is not None
    assert all(isinstance(each, Partition) for each in good_result.verification.partitions)


def test_what_was_answered_after_the_end_is_in_no_rate() -> None:
    """If this fails, an overloaded cluster seems to keep up with the requested rate."""
    totals = Totals()
    for second in range(4):
        totals.add("w", interval(second, {"Produce": Load(100, 1.0)}, random.Random(second)))
    found = build.build(scenario(2), totals, seconds=2.0, bootstrap="", command=[], origin=ORIGIN).operations["Produce"]
    assert (found.requests, found.requests_per_s) == (400, 100.0)


def test_what_was_never_sent_counts_as_failed() -> None:
    """If this fails, a cluster that stops answering has no errors, and passes the threshold for errors."""
    totals = good_totals(10)
    before = sum(each.requests for each in totals.operations.values())
    of, produced = scenario(10), totals.operations["Produce"].requests
    (producers,) = (each.name for each in of.users if each.kind == "producer")
    totals.unsent_of = {producers: produced, "others": before - produced}
    found = build.build(of, totals, seconds=10.0, bootstrap="", command=[], origin=ORIGIN)
    assert found.figure("", "error_share") == 0.5
    assert (found.operations["Produce"].unsent, found.figure("Produce", "error_share")) == (produced, 0.5)


def test_an_entry_that_did_nothing_is_there() -> None:
    """If this fails, an entry whose users are still busy with the warm-up when the run ends is missing in the
    result.
    """
    found = build.build(scenario(10), Totals(), seconds=10.0, bootstrap="", command=[], origin=ORIGIN)
    assert found.operations["Produce"].requests == 0
    assert found.operations["Produce"].latency is None
    assert found.figure("Produce", "error_share") is None
    assert found.figure("Produce", "requests") == 0
    assert found.generator.is_limit
