"""Times in cells and facts, and names that are written like times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker_cy.admin.group_values import GroupListing
from broker_cy.console.figures import Fact
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Column, FactsChannel, TableChannel, encoded_text, linked
from dashboard.security.roles import Scope
from tests.dashboard.pages.cluster_kit import plant
from tests.dashboard.pages.group_kit import drive
from tests.dashboard.support import Desk
from tests.support.broker import Target

NAME = "@1700000000000"
LITERAL = {"t": NAME, "literal": True}


class _Table(TableChannel[str]):
    COLUMNS = (
        Column("time", "Time", str, is_time=True),
        Column("name", "Name", str),
        Column("cell", "Cell", lambda row: Cell(row, Tone.BAD)),
    )

    def rows(self) -> Sequence[str]:
        return [NAME, "x"]

    def row_id(self, row: str) -> str:
        return row


class _Facts(FactsChannel):
    TIMES = frozenset({"started"})

    def facts(self) -> Sequence[Fact]:
        return [Fact("started", NAME), Fact("protocol", NAME), Fact("cause", "join")]


def test_a_group_that_is_named_like_a_time(broker: Target) -> None:
    """If this fails, a group whose name is written like a time is shown as a date, and users do not find it."""

    async def job(desk: Desk) -> None:
        plant(desk, "groups", (GroupListing(NAME, "consumer", "Empty", "classic"),))
        state = await desk.state("groups", lambda state: state["rows"])
        cell = state["rows"][0]["cells"][0]
        assert (cell["t"], cell["literal"]) == (NAME, True)
        assert cell["href"].endswith("group?group=%401700000000000")

    drive(broker.bootstrap, job)


def test_only_columns_and_facts_of_times_have_times(broker: Target) -> None:
    """If this fails, names of a cluster are shown as dates, or times as numbers."""

    async def job(desk: Desk) -> None:
        table: Any = await _Table(desk.hub, {}, Scope()).state()
        assert [row["cells"] for row in table["rows"]] == [
            [NAME, LITERAL, {**LITERAL, "tone": "BAD"}],
            ["x", "x", {"t": "x", "tone": "BAD"}],
        ]
        facts: Any = await _Facts(desk.hub, {}, Scope()).state()
        assert [value for _, value, _ in facts["facts"]] == [NAME, LITERAL, "join"]

    drive(broker.bootstrap, job)


@pytest.mark.parametrize("text", ["", "-", "orders", "a@1", "null"])
def test_other_texts_stay_plain(text: str) -> None:
    """If this fails, every cell of a frame is an object, which makes frames several times as long."""
    assert encoded_text(text) == text


def test_a_linked_name_stays_literal() -> None:
    """If this fails, a name that leads to its page is shown as a date."""
    assert linked(encoded_text(NAME), "/x") == {**LITERAL, "href": "/x"}
