"""ksqlDB's query tests against the list of those that fail in docs/sql.md: a new failure breaks somebody's queries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import pytest

from tests.broker_sql.query_tests import cases
from tests.broker_sql.query_tests.running import run

_PAGE: Final = Path(__file__).parents[3] / "docs" / "sql.md"
_FOLDER: Final = cases.folder()


def expected_failures() -> dict[str, str]:
    """Return the reasons of the page by the names of cases."""
    rows = _PAGE.read_text().partition("\n| case | reason |\n|---|---|\n")[2].partition("\n\n")[0]
    found = {}
    for row in rows.splitlines():
        name, _, reason = row.strip("| ").rpartition(" | ")
        found[name] = reason
    return found


def test_the_page_has_a_reason_for_each_case_that_fails() -> None:
    listed = expected_failures()
    assert listed
    assert all(name.count(" - ") and reason for name, reason in listed.items())


@pytest.mark.full
@pytest.mark.skipif(_FOLDER is None, reason=cases.REASON)
def test_exactly_the_listed_cases_fail() -> None:
    assert _FOLDER is not None
    logging.getLogger("broker_streams").setLevel(logging.CRITICAL)
    outcomes = [run(case) for path in sorted(_FOLDER.glob("*.json")) for case in cases.load(path)]
    failed = {each.name: f"{each.stage}: {each.reason}" for each in outcomes if not each.passed}
    listed = expected_failures()
    assert not {name: reason for name, reason in failed.items() if name not in listed}, "these cases passed before"
    assert not [name for name in listed if name not in failed], "these cases pass: take them off the list"
    assert len(outcomes) > 2_000
