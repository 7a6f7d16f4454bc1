"""The form that says which records are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.console.acts.topics import position_text
from broker_cy.console.fields import Field, Form
from broker_cy.console.record_filter import RecordFilter
from broker_cy.console.values import optional, parse_partitions, parse_position

ALL, COMMITTED = "all", "committed"


class Search(NamedTuple):
    """Which records are read. `partitions` None: all."""

    start: Start
    partitions: tuple[int, ...] | None = None
    wanted: RecordFilter = RecordFilter()
    isolation: Isolation = Isolation.READ_UNCOMMITTED

    @property
    def about(self) -> str:
        """The search in a few words, with texts that a user typed."""
        parts = [f"from {position_text(self.start)}"]
        if self.partitions is not None:
            parts.append(f"partitions {','.join(map(str, self.partitions))}")
        if not self.wanted.is_empty:
            parts.append(str(self.wanted))
        if self.isolation is Isolation.READ_COMMITTED:
            parts.append("committed")
        return ", ".join(parts)


def search_form(topic: str, now: Search) -> Form:
    """Return the form, filled with the search that is shown."""
    partitions = "" if now.partitions is None else ",".join(map(str, now.partitions))
    isolation = COMMITTED if now.isolation is Isolation.READ_COMMITTED else ALL
    fields = [
        Field("start", "From", parse_position, position_text(now.start), "beginning, end, offset, -N, @TIME"),
        Field("partitions", "Partitions", optional(parse_partitions), partitions, "all; or 0,3-5"),
        Field("key", "Key has", _checked("key"), now.wanted.key, "text, or ~regex"),
        Field("value", "Value has", _checked("value"), now.wanted.value, "text, or ~regex"),
        Field("header", "Header", _checked("header"), now.wanted.header, "name, or name=text"),
        Field("path", "JSON path", _checked("path"), now.wanted.path, "$.user.id = 42"),
        Field("isolation", "Transactions", value=isolation, choices=(ALL, COMMITTED)),
    ]
    return Form(f"Records of {topic}", fields, verb="Read")


def search_of(values: Mapping[str, Any]) -> Search:
    """Return the search of the values of the form."""
    isolation = Isolation.READ_COMMITTED if values["isolation"] == COMMITTED else Isolation.READ_UNCOMMITTED
    wanted = RecordFilter(*(values[name] for name in ("key", "value", "header", "path")))
    return Search(values["start"], values["partitions"], wanted, isolation)


def _checked(name: str) -> Callable[[str], str]:
    """A field of the filter: the text, once it is valid."""

    def parse(text: str) -> str:
        RecordFilter(**{name: text.strip()}).compile()
        return text.strip()

    return parse
