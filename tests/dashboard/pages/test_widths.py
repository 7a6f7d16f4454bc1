"""Columns of tables are wide enough for their contents in a window of 1280 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_cy.config import definitions
from dashboard.collector.channel import Column
from dashboard.pages.producers import Producers
from dashboard.pages.schemas import Subjects
from dashboard.pages.settings import Settings

# The width of a table in such a window, next to the navigation.
TABLE_PIXELS = 1_052
# A cell has 10 pixels on both sides; a letter of a name has 6.5 pixels on average.
PADDING_PIXELS = 20
LETTER_PIXELS = 6.5
# The column with the checkbox of each row (assets/tables.js).
MARK_PIXELS = 64


def width_of(columns: Sequence[Column[Any]], key: str) -> int:
    """Return the width of a column when the flexible one has taken what the others leave, in pixels."""
    left = TABLE_PIXELS - sum(column.width for column in columns)
    (column,) = [each for each in columns if each.key == key]
    return column.width + (left if column.is_flex else 0)


def test_the_time_of_the_last_write_of_a_producer_is_whole() -> None:
    """If this fails, milliseconds of last writes are cut, so that producers of one second cannot be told apart."""
    assert width_of(Producers.COLUMNS, "written") >= 190


def test_the_names_of_all_settings_are_whole() -> None:
    """If this fails, settings that differ at the end of their names look the same."""
    longest = max(map(len, (*definitions.BROKER, *definitions.TOPIC, *definitions.GROUP)))
    assert width_of(Settings.COLUMNS, "name") >= longest * LETTER_PIXELS + PADDING_PIXELS
    assert width_of(Settings.COLUMNS, "value") >= 200


def test_the_columns_of_schemas_fit_beside_each_other() -> None:
    """If this fails, the last columns of the list of subjects are outside of the window."""
    assert sum(column.width for column in Subjects.COLUMNS) + MARK_PIXELS <= TABLE_PIXELS
