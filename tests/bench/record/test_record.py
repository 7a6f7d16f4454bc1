"""The recorded tables: their measurements can be run, and no number in the document differs from the measurements."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import arguments, cli
from bench.record import plan as plans
from bench.record import runner, tables
from bench.record.plan import Column, Measurement, Plan, Reach, Row, Table
from bench.report import result
from bench.report.result import Document, Pair
from broker_cy.client.toml_file import SpecError
from tests.support.bench_results import document as compared

ROOT = Path(__file__).resolve().parents[3]
RATE = Column("rate", "ratio", "records_per_s", "ours", "kafka")
P99 = Column("p99", "value", "p99_ms", "ours")


def recorded(repeats: int = 6, changing: tuple[str, ...] = ()) -> Document:
    """A result; the targets `changing` were not steady when their warm-up ended."""
    made = compared(repeats)
    origin = {"command": "broker-bench compare", "started": "2026-01-02T03:04:05", "revision": "abc", "cpu": "2 x"}
    warm_ups = tuple(replace(each, steady=each.target not in changing) for each in made.warm_ups)
    return replace(made, provenance={**made.provenance, **origin}, warm_ups=warm_ups)


def test_every_command_of_the_plan_is_one_that_broker_bench_takes() -> None:
    """If this fails, a mistyped option ends half an hour of measuring."""
    for measurement in plans.load().measurements:
        program, *rest = measurement.command
        if program == "python":
            assert rest[:1] == ["-m"]
            assert rest[1] in plans.PROGRAMS
            continue
        assert program == "broker-bench"
        options = arguments.parse([*rest, "--json-file", "x"])
        for name in options.workload:
            cli.find("workloads", name)
        for name in getattr(options, "targets", None) or options.target:
            cli.find_target(name)


def test_the_document_shows_what_was_measured() -> None:
    """If this fails, the document contains a number that was typed by hand, or left from an earlier measurement."""
    path = ROOT / "docs" / "performance.md"
    prose, plan = path.read_text(), plans.load()
    assert sorted(tables.places(prose)) == sorted(table.name for table in plan.tables)
    found = tables.documents(plan, ROOT / "docs" / "measurements")
    assert tables.fill(prose, plan, found, "measurements") == prose, "make bench ARGS=--fill"


@pytest.mark.parametrize(
    ("reach", "shown"),
    [
        (None, "0.98 (0.98 to 0.98)"),
        (Reach(True, 0.5), "0.98 (0.98 to 0.98), reaches ≥ 0.5"),
        (Reach(True, 2.0), "0.98 (0.98 to 0.98), **missed** ≥ 2"),
        (Reach(False, 0.25), "0.98 (0.98 to 0.98), **missed** ≤ 0.25"),
    ],
)
def test_a_miss_is_called_a_miss(reach: Reach | None, shown: str) -> None:
    """If this fails, a goal next to a number that misses it is read as reached."""
    pair = Pair("records_per_s", "ours", "kafka", (0.98,) * 6, 0.98, (0.976, 0.984))
    document = replace(recorded(), pairs=(pair,))
    row = Row("r", "m", reach={"rate": reach} if reach else {})
    assert tables.cell(document, row, RATE) == shown


def test_cells_say_where_there_is_no_interval_or_no_figure() -> None:
    """If this fails, one pair looks as reliable as six, or a failed run looks like one that was never requested."""
    row = Row("r", "m")
    one = recorded(1)
    assert tables.cell(one, row, RATE) == "1.00 (1 pair)"
    assert tables.cell(one, row, P99) == "4.000 ms"
    assert "(range 4.000 to" in tables.cell(recorded(2), row, P99)
    assert " ms (4." in tables.cell(recorded(6), row, P99)
    assert tables.cell(one, row, replace(P99, metric="drain_s")) == ""
    failed = replace(one, runs=[replace(run, failed="it died", figures={}) for run in one.runs], pairs=())
    assert tables.cell(failed, row, P99) == "failed: it died"
    sides = replace(RATE, kind="sides")
    assert tables.cell(one, row, sides) == "10,000 : 10,000 /s"


@pytest.mark.parametrize(
    ("changing", "ratio", "both"),
    [
        ((), "1.00 (1.00 to 1.00), reaches ≥ 0.5", "10,000 : 10,000 /s"),
        (
            ("kafka",),
            "not comparable: peer not steady when its warm-up ended",
            "10,000 : 10,000 /s (peer not steady)",
        ),
        (
            ("ours",),
            "not comparable: ours not steady when its warm-up ended",
            "10,000 : 10,000 /s (ours not steady)",
        ),
        (
            ("ours", "kafka"),
            "not comparable: peer and ours not steady when its warm-up ended",
            "10,000 : 10,000 /s (peer and ours not steady)",
        ),
    ],
)
def test_a_target_that_was_still_changing_has_no_ratio(changing: tuple[str, ...], ratio: str, both: str) -> None:
    """If this fails, a peer that was still warming up makes us look several times faster than we are."""
    row = Row("r", "m", reach={"rate": Reach(True, 0.5)})
    document = recorded(changing=changing)
    assert tables.cell(document, row, RATE) == ratio
    assert tables.cell(document, row, replace(RATE, kind="sides")) == both
    # The warm-up of another workload says nothing about this one.
    others = tuple(replace(each, label="another", steady=False) for each in document.warm_ups)
    assert tables.cell(replace(document, warm_ups=others), row, RATE) == "1.00 (1.00 to 1.00), reaches ≥ 0.5"
    assert "reaches" in tables.cell(document, replace(row, reach={"p99": Reach(True, 0.5)}), replace(P99, title="p99"))


def test_tables_are_filled_in_place_and_name_their_origin() -> None:
    """If this fails, text around a table is lost, or a table grows each time it is filled."""
    plan = Plan((), (Table("t", (RATE, P99), (Row("a row", "m"), Row("another", "n"))),))
    prose = "before\n<!-- table t -->\nold 1.23\n<!-- end of table -->\nafter\n"
    found = {"m": recorded(changing=("kafka",))}
    filled = tables.fill(prose, plan, found, "measurements")
    assert filled.startswith("before\n<!-- table t -->\n| | rate | p99 |\n|---|---|---|\n| a row | ")
    assert filled.endswith("<!-- end of table -->\nafter\n")
    assert "old 1.23" not in filled
    assert "| another | not measured | not measured |" in filled
    reported = "- `broker-bench compare`: 2026-01-02, revision abc, 2 x; not steady when its warm-up ended: kafka"
    assert f"{reported} ([JSON](measurements/m.json))" in filled
    assert tables.fill(filled, plan, found, "measurements") == filled


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Replaces the commands of all measurements."""
    path = tmp_path / "program.py"
    path.write_text(text)
    monkeypatch.setattr(runner, "argv", lambda measurement: [sys.executable, str(path), measurement.name])


WRITES = "import json, sys; json.dump({'lag_s': 1.23456789}, open(sys.argv[3], 'w'))"


def named(name: str, seconds: float = 1.0) -> Measurement:
    return Measurement(name, ("python", "-m", "bench.studies.lag"), seconds)


def test_recording_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measurements recorded at this revision are not repeated, and measurements beyond the time limit are named."""
    program(tmp_path, monkeypatch, WRITES)
    both = [named("first"), named("second", 500.0)]
    assert not runner.record(both, tmp_path / "out", 60.0, again=False)
    reported = capsys.readouterr().out
    assert "first: recorded after" in reported
    assert "second: left out: takes 500 s, " in reported
    kept = result.read(tmp_path / "out" / "first.json")
    assert kept.runs[0].figures == {"lag_s": 1.23457}
    assert kept.provenance["command"] == "python -m bench.studies.lag"
    assert runner.record(both, tmp_path / "out", 1000.0, again=False)
    reported = capsys.readouterr().out
    assert "first: already recorded" in reported
    assert "second: recorded after" in reported
    path = tmp_path / "out" / "first.json"
    known = json.loads(path.read_text())
    known["provenance"]["revision"] = "an older one"
    path.write_text(json.dumps(known))
    assert not runner.is_recorded(tmp_path / "out", both[0])


def test_a_measurement_that_fails_is_named_and_keeps_the_older_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is still measured; the failed one is not reported as measured."""
    program(tmp_path, monkeypatch, "import sys; print('no disk', file=sys.stderr); sys.exit(1)")
    assert not runner.record([named("first")], tmp_path / "out", 60.0, again=False)
    assert "first: failed: exit code 1: no disk after" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_what_is_kept_is_small() -> None:
    """If this fails, series and histograms of every run would fill the repository."""
    whole = recorded()
    slim = runner.slim(whole)
    assert slim.runs[0].figures.keys() == whole.runs[0].figures.keys()
    assert slim.pairs == whole.pairs
    assert len(slim.text(None)) < len(whole.text()) / 3


ONE = '[[measurement]]\nname = "a"\ncommand = "x"\nseconds = 1\n'
TABLE = '[[table]]\n\nname = "t"\n'
COLUMN = 'columns = [{ title = "c", value = "ours p99_ms" }]\n'
ROW = 'rows = [{ title = "r", '
REACH = ROW + 'measurement = "a", reach = { '


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "measurement: is missing"),
        (ONE, 1, "table: is missing"),
        (ONE + ONE + TABLE, 6, "measurement[1].name: 'a' is the name of an earlier measurement"),
        (ONE + 'group = 1\n' + TABLE, 5, "measurement[0].group: 1 is not a text"),
        (ONE + TABLE + COLUMN, 5, "table[0].rows: is missing"),
        (ONE + TABLE + COLUMN + ROW + 'measurement = "b" }]', 9, "rows[0].measurement: 'b' is not allowed"),
        (ONE + TABLE + COLUMN + ROW + 'text = "t", measurement = "a" }]', 9, "rows[0].measurement: unknown key"),
        (ONE + TABLE + 'columns = [{ title = "c", ratio = "ours p99_ms" }]', 8, "columns[0].ratio: 'ours p99_ms' "),
        (ONE + TABLE + 'columns = [{ title = "c", sum = "ours p99_ms" }]', 8, "one of value, ratio, sides is required"),
        (ONE + TABLE + COLUMN + REACH + 'c = "about 5" } }]', 9, "rows[0].reach.c: 'about 5' is not a reach"),
        (ONE + TABLE + COLUMN + REACH + 'd = ">= 5" } }]', 9, "rows[0].reach.d: unknown key (allowed: c)"),
    ],
)  # fmt: skip
def test_a_wrong_plan_is_refused(tmp_path: Path, text: str, line: int, words: str) -> None:
    """If this fails, a goal for a column that does not exist is never compared with anything."""
    path = tmp_path / "tables.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=rf"tables\.toml:{line}: .*{re.escape(words)}"):
        plans.load(path)


def test_names_that_are_not_known_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a mistyped name of a table selects all of them."""
    assert cli.main(["record", "--list", "--only", "lag"]) == 0
    assert "python -m bench.studies.lag --time" in capsys.readouterr().out
    assert cli.main(["record", "--list", "--only", "lagg"]) == 2
    assert cli.main(["record", "--list", "--json", "--only", "lag"]) == 0
    (lag, *_) = json.loads(capsys.readouterr().out)
    assert lag["name"] == "lag"
    assert "python -m bench.studies.lag --time" in lag["command"]
    assert cli.main(["record", "--list", "--json", "--only", "lagg"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["failure"] == "invalid"
    assert cli.main(["record", "--list", "--only", "lagg"]) == 2
    assert "--only lagg: no such measurement, table or group (allowed: " in capsys.readouterr().err


def test_all_measurements_of_clusters_take_less_than_35_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, recording them takes too long, or the group leaves some of them out."""
    assert cli.main(["record", "--list", "--only", "cluster"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert {"cluster-produce", "cluster-latency", "failover", "failover-shards", "reassign", "many-partitions"} <= set(
        names
    )
    # Ten minutes are for Kafka's warm-up: with less, it was not steady and could not be compared.
    assert int(total.split()[0]) < 2100
