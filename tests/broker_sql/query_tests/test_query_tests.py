"""ksqlDB's query tests against the list of those that fail in docs/sql.md: a new failure breaks somebody's queries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.broker_sql.query_tests import cases, rest_cases, rest_running
from tests.broker_sql.query_tests.outcome import Outcome
from tests.broker_sql.query_tests.running import run

_PAGE: Final = Path(__file__).parents[3] / "docs" / "sql.md"
_FOLDER: Final = cases.folder()
_REST_FOLDER: Final = cases.folder(rest_cases.FOLDER)


def expected_failures(head: str) -> dict[str, str]:
    """Return the reasons of the page by the names of cases. `head` is the first column of the table."""
    rows = _PAGE.read_text().partition(f"\n| {head} | reason |\n|---|---|\n")[2].partition("\n\n")[0]
    found = {}
    for row in rows.splitlines():
        name, _, reason = row.strip("| ").rpartition(" | ")
        found[name] = reason
    return found


@pytest.mark.parametrize("head", ["case", "case of the REST API"])
def test_the_page_has_a_reason_for_each_case_that_fails(head: str) -> None:
    listed = expected_failures(head)
    assert listed
    assert all(name.count(" - ") and reason for name, reason in listed.items())


def check(outcomes: list[Outcome], listed: dict[str, str]) -> None:
    failed = {each.name.strip(): f"{each.stage}: {each.reason}" for each in outcomes if not each.passed}
    assert not {name: reason for name, reason in failed.items() if name not in listed}, "these cases passed before"
    assert not [name for name in listed if name not in failed], "these cases pass: take them off the list"


@pytest.mark.full
@pytest.mark.skipif(_FOLDER is None, reason=cases.REASON)
def test_exactly_the_listed_cases_fail() -> None:
    assert _FOLDER is not None
    logging.getLogger("broker_streams").setLevel(logging.CRITICAL)
    outcomes = [run(case) for path in sorted(_FOLDER.glob("*.json")) for case in cases.load(path)]
    assert len(outcomes) > 2_000
    check(outcomes, expected_failures("case"))


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(1_800)
@pytest.mark.skipif(_REST_FOLDER is None, reason=cases.REASON)
def test_exactly_the_listed_cases_of_the_rest_api_fail(tmp_path: Path) -> None:
    assert _REST_FOLDER is not None
    with rest_running.rig(tmp_path) as at:
        outcomes = [
            rest_running.run(case, at)
            for path in sorted(_REST_FOLDER.glob("*.json"))
            for case in rest_cases.load(path, uuid4().hex[:8])
        ]
    assert len(outcomes) > 400
    check(outcomes, expected_failures("case of the REST API"))
