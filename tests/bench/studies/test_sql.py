"""The study of the server of SQL, with few pull queries and persistent queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.studies.sql import main


@pytest.mark.full
def test_the_study_measures_all_of_its_parts(tmp_path: Path) -> None:
    """If this fails, the figures of a server of SQL cannot be measured."""
    file = tmp_path / "figures.json"
    assert main(["--pulls", "20", "--queries", "2", "--json-file", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert {"statement_ms", "pulls_a_core", "resident_mb"} <= figures.keys()
    assert len(figures["statement_ms"]) == len(figures["first_row_ms"])
