"""The regression gate: callgrind's output is read correctly, and verdicts are correct."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.check import __main__ as gate
from bench.check import build, compare, counted, operations, profile
from bench.check.compare import Expected, ExpectedError, Row
from bench.check.profile import Function, ProfileError
from bench.launch import nodes
from bench.targets.brokers import TargetError

DUMP = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7
cmd:  python -m broker_cy.cli start
part: 2

desc: Trigger: Client Request: zero
positions: line
events: Ir
summary: 1000

ob=(1) /usr/lib/walk.so
fl=(1) walk.c
fn=(1) walk_records
10 100
+2 20
* 5
-1 1
fi=(2) inlined.h
7 4
fe=(1)
cob=(2) /usr/lib/libc.so.6
cfi=(3) memcpy.S
cfn=(2) memcpy
calls=3 40
12 600
13 10

ob=(2)
fl=(3)
fn=(2)
40 600
41

ob=(1)
fl=(1)
fn=(3) crc32c'2
1 200
fn=(1)
20 60

totals: 1000
"""
MACHINE = dict.fromkeys(build.MACHINE, "1") | dict.fromkeys(build.TOLD, "1")


def test_costs_go_to_the_function_itself() -> None:
    """Calls counted with all their callees would show main() as the heaviest function."""
    found = profile.parse(DUMP.splitlines(keepends=True))
    assert found.total == 1000
    assert found.functions == {
        Function("walk_records", "walk.so"): 200,
        Function("memcpy", "libc.so.6"): 600,
        Function("crc32c'2", "walk.so"): 200,
    }
    assert profile.heaviest(found, requests=10, limit=2)[0] == ("60.0%", "60", "memcpy", "libc.so.6")
    assert len(profile.heaviest(found, requests=10, limit=2)) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("totals: 1000", "", "without a line of totals"),
        ("40 600", "40 601", "1001 instructions, but the total is 1000"),
        ("cfn=(2) memcpy", "cfn=(9)", r"line 25: cfn=\(9\): this name was not defined"),
        ("events: Ir", "events: Ir Dr", "line 10: events: Ir Dr: Ir by line is expected"),
        ("positions: line", "positions: instr line", "Ir by line is expected"),
        ("40 600", "forty", "line 33: forty: not a line of a callgrind profile"),
    ],
)
def test_a_profile_that_is_not_understood_is_refused(old: str, new: str, message: str) -> None:
    """A count of half a profile would pass as an improvement."""
    assert old in DUMP
    with pytest.raises(ProfileError, match=message):
        profile.parse(DUMP.replace(old, new, 1).splitlines())


@pytest.mark.parametrize(
    ("expected", "now", "verdict"),
    [
        (1000, 1030, compare.SAME),
        (1000, 1031, compare.WORSE),
        (1000, 970, compare.SAME),
        (1000, 969, compare.BETTER),
        (None, 5, compare.UNKNOWN),
    ],
)
def test_the_tolerance_is_three_percent(expected: int | None, now: int, verdict: str) -> None:
    assert Row("fetch", expected, now).verdict == verdict


def decide(recorded: dict[str, int], now: dict[str, int], **versions: str) -> tuple[str, int]:
    return gate.verdict(Expected(MACHINE, recorded), Expected(MACHINE | versions, now), Path("expected.json"))


def test_one_operation_that_is_worse_fails_the_gate() -> None:
    """An improvement of another operation must not hide it."""
    text, code = decide({"produce": 1000, "fetch": 2000}, {"produce": 500, "fetch": 2100})
    assert code == gate.REGRESSED
    assert [line.split() for line in text.splitlines()[1:3]] == [
        ["produce", "1,000", "500", "-50.0%", "better"],
        ["fetch", "2,000", "2,100", "+5.0%", "WORSE"],
    ]
    assert "--record" in text
    assert "--top" in text


def test_what_is_better_or_the_same_passes() -> None:
    text, code = decide({"produce": 1000}, {"produce": 990})
    assert (code, "--record" in text) == (gate.FINE, False)
    text, code = decide({"produce": 1000}, {"produce": 900}, uvloop="2")
    assert (code, "--record" in text) == (gate.FINE, True)
    assert "uvloop 2 (recorded: 1)" in text


@pytest.mark.parametrize("key", build.MACHINE)
def test_another_build_is_not_compared(key: str) -> None:
    """Counts of another interpreter would be reported as regressions, or hide them."""
    text, code = decide({"produce": 1000}, {"produce": 9000}, **{key: "other"})
    assert code == gate.NOTHING_TO_COMPARE
    assert "NOTHING TO COMPARE WITH" in text
    assert f"{key} other (recorded: 1)" in text
    assert "9,000" in text
    assert "WORSE" not in text


def test_another_build_is_said_at_once_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make test` would spend half a minute on counts that it cannot compare, or fail on every other machine."""
    monkeypatch.setattr(gate, "measure", lambda settings: pytest.fail("it was counted"))
    path = tmp_path / "expected.json"
    assert gate.main(["--where-recorded", "--expected", str(path)]) == gate.FINE
    assert capsys.readouterr().out == "bench-check: instructions are not counted on this build: no recorded counts\n"
    versions = {**build.versions(), "gcc": "2"}
    compare.save(path, Expected(versions, {"heartbeat": 5}))
    assert gate.main(["--where-recorded", "--expected", str(path)]) == gate.FINE
    assert "not counted on this build: gcc " in capsys.readouterr().out


def test_the_recorded_build_is_counted_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a change that costs 16% more passes `make test`."""
    monkeypatch.setattr(gate, "measure", lambda settings: {"heartbeat": counts(116)})
    path = tmp_path / "expected.json"
    compare.save(path, Expected(build.versions(), {"heartbeat": 100}))
    assert gate.main(["--where-recorded", "--expected", str(path)]) == gate.REGRESSED


def test_what_is_worse_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one disturbed broker fails `make test`, or a count that is fine costs three brokers."""
    found = [{"fetch": 130, "heartbeat": 100}, {"fetch": 103, "heartbeat": 140}, {"fetch": 1, "heartbeat": 1}]
    left = [{name: counts(each) for name, each in one.items()} for one in found]
    monkeypatch.setattr(gate, "measure", lambda settings: left.pop(0))
    path = tmp_path / "expected.json"
    compare.save(path, Expected(build.versions(), {"fetch": 100, "heartbeat": 100}))
    assert gate.main(["--expected", str(path)]) == gate.FINE
    assert len(left) == 1


def counts(per_request: int) -> counted.Counts:
    return counted.Counts(per_request, 0.0, 1, profile.Profile(per_request, Counter()))


def test_what_was_never_recorded_is_no_pass() -> None:
    """If this fails, a new operation, or a lost file, would never be compared."""
    assert decide({}, {"produce": 9})[1] == gate.NOTHING_TO_COMPARE
    assert decide({"fetch": 1}, {"produce": 9, "fetch": 2})[1] == gate.REGRESSED
    text, code = gate.verdict(None, Expected(MACHINE, {"produce": 9}), Path("expected.json"))
    assert code == gate.NOTHING_TO_COMPARE
    assert "no recorded counts" in text


def test_counts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "expected.json"
    assert compare.load(path) is None
    kept = Expected(build.versions(), {"produce": 17})
    compare.save(path, kept)
    assert compare.load(path) == kept
    assert not build.differences(kept.versions, build.versions(), (*build.MACHINE, *build.TOLD))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "format 1 is expected"),
        ('{"format": 2}', "format 1 is expected"),
        ('{"format": 1, "versions": [], "operations": {}}', "versions: an object of strings"),
        ('{"format": 1, "versions": {}, "operations": {"a": 0}}', "instruction counts above 0"),
        ('{"format": 1, "versions": {}, "operations": {"a": "1"}}', "instruction counts above 0"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "expected.json"
    path.write_text(text)
    with pytest.raises(ExpectedError, match=f"expected.json: .*{message}"):
        compare.load(path)
    assert gate.main(["--expected", str(path)]) == gate.FAILED


def test_the_repository_has_counts_of_every_operation() -> None:
    """If this fails, the gate would report everywhere that no recorded counts exist."""
    kept = compare.load(gate.EXPECTED)
    assert kept is not None
    assert list(kept.operations) == list(operations.REQUESTS)
    assert set(kept.versions) == {*build.MACHINE, *build.TOLD}


def test_a_callgrind_that_does_not_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a broker must not pass."""
    monkeypatch.setattr(nodes.BrokerCy, "command", lambda _: ["/nonexistent/broker"])
    with pytest.raises(TargetError, match="before it was ready"):
        counted.Counted(tmp_path / "data").start()


@pytest.mark.soak
def test_two_runs_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the counts are noise, or nothing is counted at all."""
    path = tmp_path / "expected.json"
    options = ["--top", "--expected", str(path)]
    assert gate.main([*options, "--record"]) == gate.FINE
    first = compare.load(path)
    assert first is not None
    assert "walk_records" in capsys.readouterr().out
    assert gate.main([*options, "--record"]) == gate.FINE
    second = compare.load(path)
    assert second is not None
    for name, count in first.operations.items():
        assert second.operations[name] == pytest.approx(count, rel=0.01), name
        assert count > 5000, name
    cheaper = {name: count * 9 // 10 for name, count in first.operations.items()}
    path.write_text(json.dumps({"format": 1, "versions": first.versions, "operations": cheaper}))
    assert gate.main(options) == gate.REGRESSED
    verdicts = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith(tuple(cheaper))]
    assert verdicts.count(compare.WORSE) == len(cheaper)
