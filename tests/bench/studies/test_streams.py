"""The measurements of streams: their parts run, and fill the recorded table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.record import plan as plans
from bench.studies import streams, streams_state

# A broker, and four programs for each part.
pytestmark = pytest.mark.full
SMALL = ["--pairs", "1", "--records", "20000", "--rate", "500", "--seconds", "1"]


def test_every_part_is_measured(tmp_path: Path) -> None:
    """If this fails, the recorded table has rows without figures, or a program does not process all records."""
    path = tmp_path / "streams.json"
    assert streams.main([*SMALL, "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "streams"]
    assert {row.metric for row in table.rows} <= found.keys()
    assert min(value for values in found.values() for value in values) > 0


def test_the_restore_of_state_is_measured(tmp_path: Path) -> None:
    """If this fails, the recorded table of state has rows without figures, or a program restores nothing."""
    path = tmp_path / "state.json"
    assert streams_state.main(["--mb", "2", "--rows", "2000", "--json-file", str(path)]) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "streams-state"]
    assert {row.metric for row in table.rows} <= found.keys()
    assert min(found.values()) > 0
