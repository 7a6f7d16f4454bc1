"""Times in forms that are filled in on another machine than the one that parses them."""

from __future__ import annotations

import json

import pytest

from broker_cy.console.acts.groups import reset_form
from broker_cy.console.acts.records import produce_form
from broker_cy.console.acts.topics import delete_records_form
from broker_cy.console.fields import Form
from dashboard.acts import _form
from dashboard.collector.record_request import parse_request, read_form

ZONELESS = "2026-01-31T12:00"
MOMENT_MS = 1_769_860_800_000
FORMS = [
    (produce_form("t", 1), "timestamp", "", {}),
    (delete_records_form("t", 1), "before", "@", {}),
    (reset_form("g"), "value", "", {"rule": "time"}),
    (read_form("t"), "from", "@", {}),
]


@pytest.mark.parametrize(("form", "name", "prefix", "texts"), FORMS)
def test_a_time_without_a_zone_is_not_taken_for_the_servers(
    form: Form, name: str, prefix: str, texts: dict[str, str]
) -> None:
    """If this fails, records are deleted up to another moment than the one that the user saw and typed."""
    typed = {**texts, name: prefix + ZONELESS}
    assert form.checked(typed).problems == {}
    assert "has no time zone: add Z" in form.checked(typed, needs_zones=True).problems[name]
    for moment in (ZONELESS + "Z", "2026-01-31T17:30+05:30", str(MOMENT_MS), "-15m", "now"):
        assert form.checked({**texts, name: prefix + moment}, needs_zones=True).problems == {}


@pytest.mark.parametrize(("form", "name", "prefix", "texts"), FORMS)
def test_the_browser_is_told_which_fields_are_times(form: Form, name: str, prefix: str, texts: dict[str, str]) -> None:
    """If this fails, the browser does not add its zone, and every time without one is refused."""
    fields = json.loads(json.dumps(_form(form)))["fields"]
    assert [each["name"] for each in fields if each["time"]] == [name]
    assert [each["timeIf"] for each in fields if each["time"]] == [["rule", "time"] if texts else None]


def test_a_name_that_looks_like_a_time_is_none() -> None:
    """If this fails, offsets cannot be copied from a group whose name is a date."""
    checked = reset_form("g").checked({"rule": "as group", "value": "2026-01-31"}, needs_zones=True)
    assert checked.problems == {}


def test_an_address_of_the_dashboard_needs_a_zone() -> None:
    """If this fails, a link shows records of another time to each viewer, and none of them is the time in the link."""
    request, problems = parse_request("t", {"from": f"@{ZONELESS}"})
    assert request is None
    assert "has no time zone" in problems["from"]
    request, problems = parse_request("t", {"from": f"@{ZONELESS}Z"})
    assert problems == {}
    assert request is not None
    assert request.start.value == MOMENT_MS
