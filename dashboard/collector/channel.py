"""Channels: each computes what panels show about one subject of one cluster, from the sources of the console core.

A channel has no viewers, and knows nothing of sockets: `collector/live_channel.py` repeats its computation when a
source has new data. A page declares its channels in its own file, and `@channel` registers them by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.feeds import Feed
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.tone import Tone
from dashboard.collector.frames import Health
from dashboard.collector.ordering import window_of
from dashboard.collector.patches import State
from dashboard.security.roles import Need, Role, Scope

if TYPE_CHECKING:
    from dashboard.collector.cluster import Cluster

Row = TypeVar("Row")
Params = Mapping[str, str]

# Rows of a table that a browser may request at once; it requests blocks of 100.
ROWS_MAX = 200
# Length of a filter that a user types.
FILTER_CHARACTERS_MAX = 200
# Rows of a table that are built in one go, before other tasks may run.
ROWS_A_TURN = 200

_CHANNELS: dict[str, type[Channel]] = {}
_C = TypeVar("_C", bound="type[Channel]")


def channel(name: str) -> Callable[[_C], _C]:
    """Register a class of channels. Raises ValueError if the name is taken."""

    def register(cls: _C) -> _C:
        if name in _CHANNELS:
            raise ValueError(f"channel {name} is registered twice")
        cls.name = name
        _CHANNELS[name] = cls
        return cls

    return register


def channel_class(name: str) -> type[Channel]:
    """Return the class of a channel. Raises ClientError if there is none of this name."""
    try:
        return _CHANNELS[name]
    except KeyError:
        raise ClientError(Failure.INVALID, f"there is no channel {name!r}") from None


class Channel:
    """Base of all channels. `PARAMS` has the names of its parameters; those in `REQUIRED` are mandatory."""

    name: ClassVar[str] = ""
    PARAMS: ClassVar[frozenset[str]] = frozenset()
    REQUIRED: ClassVar[frozenset[str]] = frozenset()
    ROLE: ClassVar[Role] = Role.VIEWER

    def __init__(self, hub: Cluster, params: Params, scope: Scope) -> None:
        self.hub = hub
        self.session = hub.session
        self.params = params
        self.scope = scope

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        """Return the parameters in a fixed order. Raises ClientError for unknown, missing or impossible ones."""
        unknown = sorted(set(params) - cls.PARAMS)
        if unknown:
            allowed = ", ".join(sorted(cls.PARAMS)) or "none"
            raise ClientError(
                Failure.INVALID, f"{cls.name}: unknown parameter {unknown[0]!r}; the parameters are: {allowed}"
            )
        missing = sorted(name for name in cls.REQUIRED if not params.get(name))
        if missing:
            raise ClientError(Failure.INVALID, f"{cls.name}: parameter {missing[0]!r} is missing")
        return {name: params[name] for name in sorted(params)}

    @classmethod
    def need(cls, cluster: str, params: Params) -> Need:
        """Return the access that a viewer needs. Parameters `topic` and `group` name one subject."""
        return Need.about(cls.ROLE, cluster, params)

    def sources(self) -> Sequence[Source]:
        """Return the sources; the panel shows the age and the error of the first."""
        raise NotImplementedError

    async def state(self) -> State | None:
        """Return the data of the panel; None while nothing is known. Raises ClientError, which the panel shows."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release the resources of this channel."""

    def health(self) -> Health:
        """Return how current the data is: the age of the first source, and the first error of all.

        Data that only broker-cy writes is missing if the first source is absent; a panel with more sources shows the
        rest.
        """
        sources = self.sources()
        if not sources:
            return Health(0)
        age_s = sources[0].age_s
        is_absent = bool(getattr(sources[0], "is_absent", False))
        others = [source for source in sources[1:] if not getattr(source, "is_absent", False)]
        error = next((source.error for source in (sources[0], *others) if source.error), "") or ""
        return Health(None if age_s is None else round(age_s * 1000), error, is_absent)


class SupportedChannel(Channel):
    """Channels of one feed whose request a broker may not support; that is not an error."""

    def feed(self) -> Feed[Any]:
        raise NotImplementedError

    def sources(self) -> Sequence[Source]:
        return [self.feed()]

    def health(self) -> Health:
        failure = self.feed().failure
        if failure is not None and failure.failure is Failure.UNSUPPORTED:
            return Health(0, failure.reason, True)
        return super().health()


def key_of(cluster: str, name: str, params: Params) -> str:
    """Return the key of a channel: the same for all viewers who see the same."""
    return json.dumps([cluster, name, params], separators=(",", ":"), ensure_ascii=False)


class FactsChannel(Channel):
    """Names with their values. Values of the names in `TIMES` are times, written as @MS."""

    TIMES: ClassVar[frozenset[str]] = frozenset()

    async def state(self) -> State | None:
        facts = self.facts()
        if facts is None:
            return None
        return {
            "facts": [
                [fact.name, encoded_text(fact.value, is_time=fact.name in self.TIMES), fact.tone.name] for fact in facts
            ]
        }

    def facts(self) -> Sequence[Fact] | None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell; `tone` as in the terminal, `href` is a path of the dashboard. `kind` names a function of
    core.cellKinds in assets/, which draws the cell. The text is never shown as a time: see encoded_text.
    """

    text: str
    tone: Tone = Tone.PLAIN
    href: str = ""
    kind: str = ""

    def encoded(self) -> Any:
        """Return plain text, or an object if the cell has more than text."""
        is_literal = self.text.startswith("@")
        if self.tone is Tone.PLAIN and not self.href and not is_literal and not self.kind:
            return self.text
        found: dict[str, Any] = {"t": self.text}
        if is_literal:
            found["literal"] = True
        if self.kind:
            found["kind"] = self.kind
        if self.tone is not Tone.PLAIN:
            found["tone"] = self.tone.name
        if self.href:
            found["href"] = self.href
        return found


def encoded_text(text: str, *, is_time: bool = False) -> Any:
    """Return a text for the browser, which shows @MS as a time.

    Names, such as those of groups, may have any characters and may look like that. A text is therefore encoded as
    literal unless `is_time` says that it is a time.
    """
    return text if is_time or not text.startswith("@") else Cell(text).encoded()


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table. `sort` returns the sort key of a row; without it, the column is not sortable. `is_time`:
    texts are times, written as @MS (ms since 1970), or another text if a row has no time.
    """

    key: str
    title: str
    text: Callable[[Row], str | Cell]
    sort: Callable[[Row], Any] | None = None
    is_right: bool = False
    width: int = 120
    hint: str = ""
    is_flex: bool = False
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a table that a browser requests."""

    sort: str = ""
    is_descending: bool = False
    filter: str = ""
    first: int = 0
    count: int = 100


def linked(cell: Any, href: str) -> dict[str, Any]:
    """Return an encoded cell with a path of the dashboard: Column.text knows neither the cluster nor the scope."""
    return {**(cell if isinstance(cell, dict) else {"t": cell}), "href": href}


WINDOW_PARAMS = frozenset({"sort", "desc", "filter", "from", "count"})


class TableChannel(Channel, Generic[Row]):
    """Rows of a table, sorted and filtered here. Each browser receives only the rows that it shows."""

    COLUMNS: ClassVar[Sequence[Column[Any]]] = ()
    SORT: ClassVar[str] = ""
    IS_DESCENDING: ClassVar[bool] = False
    # The parameters of the subject; those of the window are added.
    SUBJECT: ClassVar[frozenset[str]] = frozenset()
    PARAMS = WINDOW_PARAMS

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.PARAMS = WINDOW_PARAMS | cls.SUBJECT

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        cls.window(found)
        return found

    @classmethod
    def window(cls, params: Params) -> Window:
        """Parse the parameters of the window. Raises ClientError."""
        sort = params.get("sort", cls.SORT)
        sortable = [column.key for column in cls.COLUMNS if column.sort is not None]
        if sort and sort not in sortable:
            raise ClientError(
                Failure.INVALID, f"{cls.name}: cannot sort by {sort!r}; the columns are: {', '.join(sortable)}"
            )
        text = params.get("filter", "")
        if len(text) > FILTER_CHARACTERS_MAX:
            raise ClientError(Failure.INVALID, f"a filter may have {FILTER_CHARACTERS_MAX} characters")
        desc = params.get("desc", "1" if cls.IS_DESCENDING and sort == cls.SORT else "0")
        if desc not in ("0", "1"):
            raise ClientError(Failure.INVALID, f"{cls.name}: desc={desc!r}: 0 or 1 is expected")
        first = _number(cls.name, "from", params.get("from", "0"), 0, 100_000_000)
        count = _number(cls.name, "count", params.get("count", "100"), 1, ROWS_MAX)
        return Window(sort, desc == "1", text.casefold(), first, count)

    def rows(self) -> Iterable[Row] | None:
        """Return all rows that the scope allows; None as long as they are not known."""
        raise NotImplementedError

    def row_id(self, row: Row) -> str:
        """Return the id of a row, which acts on marked rows use, too."""
        raise NotImplementedError

    def row_text(self, row: Row) -> str:
        """Return the text that the filter searches."""
        return self.row_id(row)

    def remark(self) -> str:
        """Return a note on what the rows do not have, which is shown behind their count; empty if they have all."""
        return ""

    async def state(self) -> State | None:
        rows = self.rows()
        if rows is None:
            return None
        remark = self.remark()
        window = self.window(self.params)
        turns = Turns()
        found: list[Row] = []
        total = 0
        for row in rows:
            total += 1
            if not window.filter or window.filter in self.row_text(row).casefold():
                found.append(row)
            if total % ROWS_A_TURN == 0:
                await turns.pause()
        shown = await self._window(found, window)
        return {
            "rows": [{"id": self.row_id(row), "cells": self._cells(row)} for row in shown],
            "from": window.first,
            "found": len(found),
            "total": total,
            **({"remark": remark} if remark else {}),
        }

    async def _window(self, rows: list[Row], window: Window) -> list[Row]:
        """Return the rows of a window, in its order."""
        by = next((column.sort for column in self.COLUMNS if column.key == window.sort), None)
        if by is None:
            return rows[window.first : window.first + window.count]
        return await window_of(
            rows, by, self.row_id, is_descending=window.is_descending, first=window.first, count=window.count
        )

    def _cells(self, row: Row) -> list[Any]:
        return [
            cell.encoded() if isinstance(cell := column.text(row), Cell) else encoded_text(cell, is_time=column.is_time)
            for column in self.COLUMNS
        ]


def _number(name: str, param: str, text: str, low: int, high: int) -> int:
    if not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
        raise ClientError(Failure.INVALID, f"{name}: {param}={text!r}: a number from {low} to {high} is expected")
    return int(text)
