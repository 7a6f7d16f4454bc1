"""A test of ksqlDB that is read wrongly would count as passed or failed for no reason."""

from __future__ import annotations

from pathlib import Path

from tests.broker_sql.query_tests.cases import load

FILE = """
{
  // A comment, with "quotes".
  "tests": [
    {
      "name": "one", "format": ["JSON", "AVRO",],
      "statements": ["CREATE STREAM a WITH (f='{FORMAT}'); // no comment",],
      "topics": [{"name": "t", "valueFormat": "{FORMAT}"}],
      "inputs": [{"topic": "t", "key": 1, "value": {"x": 1.50}, "timestamp": 3,
                  "window": {"start": 0, "end": 9, "type": "session"},
                  "headers": [{"KEY": "h", "VALUE": "IQ=="}, {"KEY": "h", "VALUE": null}]}]
    },
    {"name": "two", "config": ["a", "b"], "properties": {"p": "{CONFIG}"}, "statements": ["x /* kept */ ,]"]},
    {"name": "three", "enabled": false, "statements": []} /* , */
  ],
}
"""


def test_comments_and_trailing_commas_are_left_out_and_a_case_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(FILE)
    cases = load(path)
    assert [case.name for case in cases] == [
        "some - one - JSON",
        "some - one - AVRO",
        "some - two - p=a",
        "some - two - p=b",
    ]
    assert cases[1].statements == ("CREATE STREAM a WITH (f='AVRO'); // no comment",)
    assert cases[1].topics[0]["valueFormat"] == "AVRO"
    assert cases[2].statements == ("x /* kept */ ,]",)
    assert cases[3].properties == {"p": "b"}


def test_numbers_of_records_are_exact_and_headers_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(FILE)
    record = load(path)[0].inputs[0]
    assert str(record.value["x"]) == "1.50"
    assert record.window == (0, 9, "SESSION")
    assert record.headers == (("h", b"!"), ("h", None))
