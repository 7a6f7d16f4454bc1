"""`broker-streams test`: files of inputs and expected answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_streams.cli import command

APPLICATION = """\
from broker_streams import BYTES, JSON, LONG, STRING, UUID, Materialized, StreamsBuilder, TimeWindows
from broker_streams.serdes.windowed import TimeWindowedSerde

builder = StreamsBuilder()
orders = builder.stream("orders", key=STRING, value=JSON)
windows = orders.group_by_key().windowed_by(TimeWindows.of("1m").grace("10s"))
table = windows.count(materialized=Materialized("orders-count"))
table.to_stream().to("per-minute", key=TimeWindowedSerde(STRING, 60_000), value=LONG)
orders.filter(lambda key, order: order["item"] == "tea").to("tea")
builder.stream("ids", key=UUID, value=BYTES).to("same-ids")
config = {"application.id": "orders", "default.key.serde": STRING, "default.value.serde": JSON}
"""
STEPS = """\
# The tests of orders.
tests:
  - name: a minute  # of ann
    steps:
      - {topic: orders, key: ann, value: {item: tea, sizes: [1, null, yes, 12:30]}, at: 1s, headers: {trace: a}}
      - {topic: orders, key: ann, value: {item: milk}, at: 2000}
"""
EXPECT = """\
    expect:
      per-minute:
        - {key: ann, window: [0, 60000], value: 1}
        - {key: ann, window: [0, 60000], value: 2, at: 2000}
      tea:
        - {key: ann, value: {item: tea, sizes: [1, null, yes, 12:30]}, headers: {trace: a}}
    stores:
      orders-count:
        - {key: ann, window: [0, 60000], value: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(APPLICATION)
    return tmp_path


def run(folder: Path, text: str | None, *arguments: str, name: str = "orders.test.yaml") -> Result:
    if text is not None:
        (folder / name).write_text(text)
    return CliRunner().invoke(command, ["test", str(folder / "orders.py"), *arguments])


def test_expected_answers_pass(folder: Path) -> None:
    """If this fails, a correct application is reported as wrong."""
    shown = run(folder, STEPS + EXPECT)
    assert (shown.exit_code, shown.output.splitlines()[-1]) == (0, "1 of 1 test passed"), shown.output


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("value: 2, at", "value: 3, at", ["- {key: ann, window: [0, 60000], value: 3, at: 2000}",
                                          "+ {key: ann, window: [0, 60000], value: 2, at: 2000}"]),
        ("value: 2, at: 2000", "value: 2, at: 2001", ["- {key: ann, window: [0, 60000], value: 2, at: 2001}",
                                                      "+ {key: ann, window: [0, 60000], value: 2, at: 2000}"]),
        ("trace: a}}\n    stores", "trace: b}}\n    stores", ["headers: {trace: b}", "headers: {trace: a}"]),
        ("value: 2}", "value: 2.5}", ["- {key: ann, window: [0, 60000], value: 2.5}",
                                      "+ {key: ann, window: [0, 60000], value: 2}"]),
        ("      tea:\n", "      milk:\n", ["topic milk: 1 expected", "topic tea: 0 expected and missing (-), 1 not"]),
        ("    tea:\n        - {key: ann, value: {item: tea, sizes: [1,",
         "    tea:\n        - {key: ann, value: {item: tea, sizes: [true,",
         ["sizes: [true, null", "sizes: [1, null"]),
    ],
)  # fmt: skip
def test_a_difference_fails(folder: Path, old: str, new: str, lines: list[str]) -> None:
    """If this fails, an application with other answers passes, or the user does not see which record is meant."""
    text = STEPS + EXPECT
    assert text.count(old) == 1
    shown = run(folder, text.replace(old, new) + ("    topics: {milk: {value: JSON}}\n" if "milk:\n" in new else ""))
    assert shown.exit_code == 1
    assert "orders.test.yaml:3: a minute" in shown.output
    for line in lines:
        assert line in shown.output


def test_json_has_all_differences(folder: Path) -> None:
    """If this fails, programs cannot read the result."""
    shown = run(folder, (STEPS + EXPECT).replace("value: 2, at", "value: 3, at"), "--json")
    (found,) = json.loads(shown.output)
    assert (found["test"], found["passed"]) == ("a minute", False)
    window = {"key": "ann", "window": [0, 60000], "at": 2000}
    (difference,) = found["differences"]
    assert difference == {
        "topic": "per-minute",
        "missing": [{**window, "value": 3}],
        "unexpected": [{**window, "value": 2}],
    }


def test_update_writes_the_answers_and_keeps_the_rest(folder: Path) -> None:
    """If this fails, --update loses comments or inputs, or writes answers that the next run refuses."""
    second = "\n# A second one.\n  - name: ids\n    steps:\n" + (
        "      - {topic: ids, key: 3e1c3f0e-3f4b-4a53-8f5e-0c7a1e1a0b11, value: 'a: b', at: 5}\n"
        '      - {topic: ids, key: 3e1c3f0e-3f4b-4a53-8f5e-0c7a1e1a0b11, value: "1e3", at: 6}\n'
        "      - {topic: ids, key: 3e1c3f0e-3f4b-4a53-8f5e-0c7a1e1a0b11, value: !!binary gA==, at: 7}\n"
        "      - {topic: ids, key: 3e1c3f0e-3f4b-4a53-8f5e-0c7a1e1a0b11, at: 8}\n"
    )
    given = STEPS + EXPECT.replace("value: 2, at", "value: 7, at").replace("value: 2}", "value: 9}") + second
    assert run(folder, given, "--update").exit_code == 0
    written = (folder / "orders.test.yaml").read_text()
    assert written.startswith(STEPS)
    assert second in written
    assert "{key: ann, window: [0, 60000], value: 2, at: 2000}" in written
    assert "value: 9" not in written
    again = run(folder, None)
    assert (again.exit_code, again.output.splitlines()[-1]) == (0, "2 of 2 tests passed"), again.output
    assert run(folder, None, "--update").exit_code == 0
    assert (folder / "orders.test.yaml").read_text() == written


def test_stores_without_names_are_all_stores(folder: Path) -> None:
    """If this fails, users have to look up the names of stores before --update can show their rows."""
    run(folder, STEPS + "    stores:\n", "--update")
    assert (
        "orders-count:\n        - {key: ann, window: [0, 60000], value: 2, at: 2000}"
        in (folder / "orders.test.yaml").read_text()
    )


def test_errors_are_expected_answers(folder: Path) -> None:
    """If this fails, a test cannot say that a record ends the application."""
    bad = (
        "tests:\n  - name: bad\n    steps:\n      - {topic: ids, value: x, at: 1}\n"
        "      - {topic: orders, key: ann, value: {}, at: 1}\n"
    )
    assert run(folder, bad + "    error: ValueError\n").exit_code == 1
    shown = run(folder, bad + "    error: KSTREAM-FILTER\n    expect:\n")
    assert shown.exit_code == 1
    assert "topic same-ids: 0 expected and missing (-), 1 not expected (+)" in shown.output
    assert run(folder, bad + "    error: KSTREAM-FILTER\n").exit_code == 0
    shown = run(folder, bad + "    expect: {}\n")
    assert "the application ended with an error" in shown.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("tests: {", "orders.test.yaml:1: "),
        ("tests:\n  - name: a\n    name: b\n", "orders.test.yaml:3: name is given twice"),
        ("tests:\n  - name: a\n  - name: a\n", "orders.test.yaml:3: a test with the name 'a' exists"),
        ("tests:\n  - name: a\n    wait: 3\n", "orders.test.yaml:3: wait is not allowed in a test; allowed are name,"),
        ("tests: 5\n", "orders.test.yaml:1: tests: a list is expected"),
        ("tests:\n  - name: a\n    steps: [{advance: soon}]\n", ":3: advance: 'soon' is not a duration"),
        ("tests:\n  - name: a\n    steps: [{topic: x}]\n", "no source or sink of the topology has topic x"),
        ("tests:\n  - name: a\n    steps: [{topic: tea}]\n", "line 3: no source of the topology reads topic tea"),
        ("tests:\n  - name: a\n    steps: [{topic: orders, key: 7}]\n", "line 3: orders: 7 is no text (STRING)"),
        ("tests:\n  - name: a\n    steps: [{topic: orders, window: [7]}]\n", "a window is given, and keys have the"),
        ("tests:\n  - name: a\n    stores: {x: []}\n", "line 2: no rows of a store x; the stores are orders-count"),
        ("tests:\n  - name: a\n    expect: {tea: [{key: a, headers: 7}]}\n", ":3: headers are 7; a mapping"),
        ("tests:\n  - name: a\n    topics: {tea: {key: TEXT}}\n    expect: {}\n", "topic tea: 'TEXT' is no serde"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(folder: Path, text: str, message: str) -> None:
    """If this fails, a user looks for a mistake in a file that may be long."""
    shown = run(folder, text)
    assert shown.exit_code == 2, shown.output
    assert message in shown.output
    assert "orders.test.yaml" in shown.output


def test_a_test_that_expects_nothing_fails(folder: Path) -> None:
    """If this fails, a test whose answers were forgotten passes whatever the application does."""
    shown = run(folder, STEPS)
    assert shown.exit_code == 1
    assert "nothing is expected" in shown.output
    assert run(folder, "tests: []\n").exit_code == 2


def test_files_are_found_beside_the_application(folder: Path) -> None:
    """If this fails, files of tests are not run, or those of another application are."""
    shown = run(folder, None)
    assert shown.exit_code == 2
    assert "orders.test.yaml does not exist" in shown.output
    run(folder, STEPS + EXPECT, name="orders.late.test.yaml")
    run(folder, STEPS + EXPECT, name="others.test.yaml")
    assert run(folder, STEPS + EXPECT).output.splitlines()[-1] == "2 of 2 tests passed"


def test_versioned_stores_have_rows(tmp_path: Path) -> None:
    """If this fails, tests of applications with versioned tables see nothing of them."""
    (tmp_path / "orders.py").write_text(
        "from broker_streams import STRING, Materialized, StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.table('prices', key=STRING, value=STRING, materialized=Materialized('prices', history='1h'))\n"
        "config = {'application.id': 'prices'}\n"
    )
    text = (
        "tests:\n  - name: a\n    steps:\n      - {topic: prices, key: tea, value: '3', at: 7}\n"
        "      - {topic: prices, key: tea, value: '4', at: 5}\n"
        "    stores:\n      prices:\n        - {key: tea, value: '3', at: 7}\n"
    )
    assert run(tmp_path, text).exit_code == 0
    assert run(tmp_path, text.replace("value: '3', at: 7}\n      -", "value: '5', at: 7}\n      -")).exit_code == 1
