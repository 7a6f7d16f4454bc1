"""A request to read records of a topic, as it is written in addresses: `from`, `partitions`, the filters, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start, StartKind
from broker_cy.console.acts.topics import position_text
from broker_cy.console.fields import Field, Form
from broker_cy.console.payload import Format
from broker_cy.console.record_filter import RecordFilter
from broker_cy.console.values import POSITION_HELP, optional, parse_partitions, parse_position, topic_name

# The records of each partition that are read when a topic is opened; the newest of all partitions are shown.
FIRST_RECORDS: Final = 100
# Characters of one parameter.
TEXT_CHARACTERS_MAX: Final = 1_000
ALL, COMMITTED = "all", "committed"
FILTERS: Final = ("key", "value", "header", "path")
# The names in addresses.
NAMES: Final = ("from", "partitions", *FILTERS, "isolation", "format", "live")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """`partitions` None: all. `is_live`: follow new records instead of reading from `start`."""

    topic: str
    start: Start
    partitions: tuple[int, ...] | None
    wanted: RecordFilter
    isolation: Isolation
    is_live: bool
    shown: Format

    @property
    def about(self) -> str:
        """The request in a few words."""
        parts = ["new records" if self.is_live else f"from {position_text(self.start)}"]
        if self.partitions is not None:
            parts.append(f"partitions {','.join(map(str, self.partitions))}")
        if not self.wanted.is_empty:
            parts.append(str(self.wanted))
        if self.isolation is Isolation.READ_COMMITTED:
            parts.append("committed transactions only")
        return ", ".join(parts)


def read_form(topic: str) -> Form:
    """Return the form of a request."""
    return Form(
        f"Records of {topic}",
        [
            Field(
                "from",
                "From",
                parse_position,
                f"-{FIRST_RECORDS}",
                "beginning, an offset, -500, @-15m, @TIME",
                is_time=True,
            ),
            Field("partitions", "Partitions", optional(parse_partitions), hint="all; or 0,3-5"),
            Field("key", "Key contains", _filter("key"), hint="text, or ~regex"),
            Field("value", "Value contains", _filter("value"), hint="text, or ~regex"),
            Field("header", "Header", _filter("header"), hint="name, name=text or name=~regex"),
            Field("path", "JSON path", _filter("path"), hint="$.user.id = 42"),
            Field("isolation", "Transactions", value=ALL, choices=(ALL, COMMITTED)),
            Field("format", "Shown as", value=Format.AUTO.value, choices=tuple(each.value for each in Format)),
            Field("live", "Live", choices=("", "1")),
        ],
        note=POSITION_HELP,
    )  # fmt: skip


def _filter(name: str) -> Callable[[str], str]:
    """A part of the filter: the text, once it is valid."""

    def parse(text: str) -> str:
        RecordFilter(**{name: text.strip()}).compile()
        return text.strip()

    return parse


def parse_request(topic: str, query: Mapping[str, str]) -> tuple[ReadRequest | None, dict[str, str]]:
    """Return the request of a query, or the problems by name. Missing parameters have their defaults, and other names
    are ignored.
    """
    try:
        topic_name(topic)
    except ValueError as error:
        return None, {"topic": str(error)}
    given = {name: query[name] for name in NAMES if query.get(name)}
    long = {
        name: f"{TEXT_CHARACTERS_MAX:,} characters are allowed"
        for name in given
        if len(given[name]) > TEXT_CHARACTERS_MAX
    }
    if long:
        return None, long
    checked = read_form(topic).checked(given, needs_zones=True)
    if checked.problems:
        return None, dict(checked.problems)
    values = checked.values
    start: Start = values["from"]
    return (
        ReadRequest(
            topic,
            start,
            values["partitions"],
            RecordFilter(*(values[name] for name in FILTERS)),
            Isolation.READ_COMMITTED if values["isolation"] == COMMITTED else Isolation.READ_UNCOMMITTED,
            values["live"] == "1" or start.kind is StartKind.LATEST,
            Format(values["format"]),
        ),
        {},
    )
