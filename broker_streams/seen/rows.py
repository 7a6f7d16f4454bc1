"""Reads of a store as pages of JSON, from the parts of all instances.

A page has the rows of one partition after those of another. A part that is at another instance is asked for there, with
`local`, so no request goes further than one step. `next` is the place of the next page; None: that was the last one.
"""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlencode

from broker_cy.client.address import Address
from broker_cy.client.partitioner import partition_of
from broker_cy.client.streams_status import ask_rows
from broker_streams.hosts.embedded.queries import Queries
from broker_streams.kernel.stores.keys import next_prefix
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.queries.views import MAX_MS, StoreUnavailable
from broker_streams.records import KeyValue, ValueAndTimestamp, VersionedRecord, Windowed

ROWS_MAX: Final = 1_000
"""Rows of a page at most."""
ROWS: Final = 100
SKIPPED_MAX: Final = 10_000
"""Rows of windows and sessions in front of a page: they have no place at which an iteration could begin."""
FORWARD_S: Final = 4.0
"""The time limit of a request to another instance; that of the page is longer."""
_KEY_VALUE: Final = (StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE)
_WINDOW: Final = (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW)
PARAMETERS: Final = (
    "key",
    "key64",
    "from",
    "to",
    "prefix",
    "as_of",
    "reverse",
    "limit",
    "next",
    "partition",
    "isolation",
    "stale",
    "local",
)


class BadQuery(ValueError):
    """A parameter that is unknown, or has a value that is not allowed."""


@dataclass(frozen=True)
class Query:
    """`begin` and `end` are texts: keys of a key-value store, times of all others. `committed` None: as the guarantee
    says. `after` is the place of a page within its first partition.
    """

    key: bytes | None = None
    begin: str | None = None
    end: str | None = None
    prefix: str | None = None
    as_of_ms: int | None = None
    reverse: bool = False
    limit: int = ROWS
    partition: int | None = None
    after: str | None = None
    committed: bool | None = None
    stale: bool = False
    local: bool = False


class Rows:
    """Answers queries. `token` goes along to other instances."""

    def __init__(self, queries: Queries, token: str | None) -> None:
        self._queries = queries
        self._headers = [] if token is None else [("Authorization", f"Bearer {token}")]

    def query_of(self, store: Store, given: Mapping[str, str]) -> Query:
        """Raises BadQuery."""
        for name in given:
            if name not in PARAMETERS:
                raise BadQuery(f"{name} is no parameter; allowed are {', '.join(PARAMETERS)}")
        at, after = _place_of(given.get("next"))
        return Query(
            self._key(store, given),
            given.get("from"),
            given.get("to"),
            given.get("prefix"),
            time_ms(given["as_of"], "as_of") if "as_of" in given else None,
            _flag(given, "reverse"),
            _number(given, "limit", ROWS, 1, ROWS_MAX),
            at if at is not None else _number(given, "partition", None, 0, 1 << 31),
            after,
            _isolation(given.get("isolation")),
            _flag(given, "stale"),
            _flag(given, "local"),
        )

    def _key(self, store: Store, given: Mapping[str, str]) -> bytes | None:
        if "key64" in given:
            try:
                return base64.b64decode(given["key64"], altchars=b"-_", validate=True)
            except ValueError:
                raise BadQuery(f"key64 is {given['key64']!r}; base64 of the serialized key is expected") from None
        return self._key_of_text(store, given["key"], "key") if "key" in given else None

    def _key_of_text(self, store: Store, text: str, name: str) -> bytes:
        serde = self._queries.key_serde(store)
        try:
            return self._queries.key_bytes(store, value_of_text(serde.name, text))
        except (TypeError, ValueError) as error:
            raise BadQuery(
                f"{name} is {text!r}, which is no key of store {store.name} ({serde.name}): {error}; key64 takes"
                " serialized keys"
            ) from None

    async def page(self, name: str, given: Mapping[str, str]) -> dict[str, Any]:
        """Raises BadQuery, StoreUnavailable, ClientError of another instance."""
        queries = self._queries
        store = queries.placement.store(name)
        query = self.query_of(store, given)
        count = queries.placement.partitions(name)
        if count == 0:
            raise StoreUnavailable(f"the topics of store {name} have no partitions yet")
        first, last = 0, count - 1
        if queries.placement.is_global(name):
            first = last = 0
        elif query.key is not None:
            first = last = partition_of(query.key, count)
        elif query.partition is not None:
            if query.partition >= count:
                raise BadQuery(f"partition is {query.partition}; store {name} has {count}")
            first = query.partition
            last = first if query.local or "partition" in given else last
        rows: list[Any] = []
        after, following = query.after, None
        for partition in range(first, last + 1):
            found, after = await self._part(store, query, given, partition, after, query.limit - len(rows))
            rows += found
            if after is not None:
                following = _place(partition, after)
            elif len(rows) >= query.limit and partition < last:
                following = _place(partition + 1, None)
            if following is not None:
                break
        committed = query.committed if query.committed is not None else queries.is_exactly_once
        return {
            "store": name,
            "kind": store.kind.value,
            "isolation": "committed" if committed else "uncommitted",
            "rows": rows,
            "next": following,
        }

    async def _part(
        self, store: Store, query: Query, given: Mapping[str, str], partition: int, after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        """Rows of one partition, from here or from its owner, and the place of the rows behind them."""
        queries = self._queries
        try:
            queries.parts(store.name, partition=partition, stale=query.stale)
        except StoreUnavailable:
            if query.local:
                raise
            return await self._from_owner(store, given, partition, after, limit)

        def read() -> tuple[list[Any], str | None]:
            parts = queries.parts(store.name, partition=partition, stale=query.stale)
            return self._read(store, query, parts[partition], after, limit)

        return await queries.read(read, committed=query.committed)

    async def _from_owner(
        self, store: Store, given: Mapping[str, str], partition: int, after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        at = self._queries.placement.at(store.name, partition)
        place = at.active
        if place is None and _flag(given, "stale") and at.standbys:
            place = min(at.standbys)
        if place is None:
            raise StoreUnavailable(
                f"partition {partition} of store {store.name} is at no instance that can be asked: the group has not"
                " assigned it, or its instance has no application.server"
            )
        kept = {name: value for name, value in given.items() if name not in ("next", "partition", "limit")}
        asked = kept | {"local": "true", "limit": str(limit), "next": _place(partition, after)}
        target = f"/stores/{quote(store.name, safe='')}?{urlencode(asked)}"
        rows, following = await ask_rows(Address(*place), target, FORWARD_S, headers=self._headers)
        return rows, None if following is None else _place_of(following)[1]

    # ---- one part

    def _read(
        self, store: Store, query: Query, part: Any, after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        key = None
        if query.key is not None:
            key = self._queries.key_serde(store).deserialize("", query.key)
        if store.kind in _KEY_VALUE:
            if key is not None:
                value = part.peek(key)
                return ([] if value is None else [_shown(KeyValue(key, value))]), None
            return self._key_values(store, query, part, after, limit)
        if store.kind is StoreKind.VERSIONED_KEY_VALUE:
            if key is None:
                raise BadQuery(f"store {store.name} is versioned: a query needs a key")
            return self._versions(query, part, key), None
        begin_ms = 0 if query.begin is None else time_ms(query.begin, "from")
        end_ms = MAX_MS if query.end is None else time_ms(query.end, "to")
        call = _windows(part, key, begin_ms, end_ms, query.reverse) if store.kind in _WINDOW else None
        if call is None:
            call = _sessions(part, key, begin_ms, end_ms, query.reverse)
        return _skipping(call(), after, limit)

    def _key_values(
        self, store: Store, query: Query, part: Any, after: str | None, limit: int
    ) -> tuple[list[Any], str | None]:
        low = None if query.begin is None else self._key_of_text(store, query.begin, "from")
        high = None if query.end is None else self._key_of_text(store, query.end, "to")
        with_high = True
        if query.prefix is not None:
            low = query.prefix.encode()
            high, with_high = next_prefix(low), False
        if after is not None:
            # The least key behind the last one that was shown, or the keys in front of it.
            last = _bytes_of(after)
            low, high, with_high = (low, last, False) if query.reverse else (last + b"\x00", high, with_high)
        rows, last_key = part.page(low, high, with_high=with_high, reverse=query.reverse, limit=limit)
        return [_shown(row) for row in rows], None if last_key is None else _text_of(last_key)

    @staticmethod
    def _versions(query: Query, part: Any, key: Any) -> list[Any]:
        if query.as_of_ms is not None:
            found = part.get_as_of(key, query.as_of_ms)
            return [] if found is None else [_shown(found)]
        if query.begin is None and query.end is None:
            found = part.get(key)
            return [] if found is None else [_shown(found)]
        begin_ms = 0 if query.begin is None else time_ms(query.begin, "from")
        end_ms = MAX_MS if query.end is None else time_ms(query.end, "to")
        return [_shown(each) for each in islice(part.get_range(key, begin_ms, end_ms), query.limit)]


def _windows(part: Any, key: Any, begin_ms: int, end_ms: int, reverse: bool) -> Callable[[], Iterable[Any]]:
    if key is None:
        call = part.backward_fetch_all if reverse else part.fetch_all
        return lambda: call(begin_ms, end_ms)
    call = part.backward_fetch_range if reverse else part.fetch_range
    window_ms = part.window_ms
    return lambda: (
        ({"key": plain(key), "start_ms": start_ms, "end_ms": start_ms + window_ms}, value)
        for start_ms, value in call(key, begin_ms, end_ms)
    )


def _sessions(part: Any, key: Any, begin_ms: int, end_ms: int, reverse: bool) -> Callable[[], Iterable[Any]]:
    if key is None:
        call = part.backward_find_sessions_of_keys if reverse else part.find_sessions_of_keys
        return lambda: call(None, None, begin_ms, end_ms)
    call = part.backward_find_sessions if reverse else part.find_sessions
    return lambda: call(key, begin_ms, end_ms)


def _skipping(rows: Iterable[Any], after: str | None, limit: int) -> tuple[list[Any], str | None]:
    """Rows behind as many as the text `after` says."""
    skipped = 0 if after is None else int(after)
    if skipped > SKIPPED_MAX:
        raise BadQuery(f"a query shows at most {SKIPPED_MAX:,} windows of a partition; ask for fewer times")
    found = list(islice(rows, skipped, skipped + limit + 1))
    shown = [_shown(row) for row in found[:limit]]
    return shown, str(skipped + limit) if len(found) > limit else None


# ---- texts


def value_of_text(serde: str, text: str) -> Any:
    """A key as the serde of this name takes it. Raises ValueError."""
    match serde:
        case "SHORT" | "INTEGER" | "LONG":
            return int(text)
        case "FLOAT" | "DOUBLE":
            return float(text)
        case "BOOLEAN":
            if text not in ("true", "false"):
                raise ValueError("true or false is expected")
            return text == "true"
        case "UUID":
            return uuid.UUID(text)
        case "BYTES":
            return text.encode()
        case "JSON":
            return json.loads(text)
        case _:
            return text


def time_ms(text: str, name: str) -> int:
    """A time since 1970 in ms, or such as 2026-11-30T12:00:00Z. Raises BadQuery."""
    if text.isascii() and text.isdecimal():
        return min(int(text), MAX_MS)
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(f"{name} is {text!r}; ms since 1970, or a time such as 2026-11-30T12:00:00Z, is expected") from (
            None
        )
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return max(0, int(found.timestamp() * 1000))


def plain(value: Any) -> Any:
    """A value as JSON has it. Bytes that are not UTF-8 are {"base64": ...}; objects of other classes are texts."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
        case _:
            return str(value)


def _shown(row: Any) -> dict[str, Any]:
    if isinstance(row, VersionedRecord):
        return {"value": plain(row.value), "timestamp": row.timestamp, "valid_to": row.valid_to}
    key, value = row
    if isinstance(key, Windowed):
        place = {"key": plain(key.key), "start_ms": key.window.start_ms, "end_ms": key.window.end_ms}
    elif not isinstance(row, KeyValue) and isinstance(key, dict):
        place = key
    else:
        place = {"key": plain(key)}
    if isinstance(value, ValueAndTimestamp):
        return {**place, "value": plain(value.value), "timestamp": value.timestamp}
    return {**place, "value": plain(value)}


def _text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        raise BadQuery("next is not the place of a page") from None


def _place(partition: int, after: str | None) -> str:
    return f"{partition}.{'' if after is None else '.' + after}"


def _place_of(text: str | None) -> tuple[int | None, str | None]:
    """The partition of a page, and its place there. Raises BadQuery."""
    if text is None:
        return None, None
    partition, dot, rest = text.partition(".")
    if not dot or not (partition.isascii() and partition.isdecimal()) or (rest and rest[0] != "."):
        raise BadQuery(f"next is {text!r}; the value of the page before is expected")
    return int(partition), rest[1:] if rest else None


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise BadQuery(f"{name} is {text!r}; true or false is expected")
    return text == "true"


def _number(given: Mapping[str, str], name: str, default: Any, least: int, most: int) -> Any:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
        raise BadQuery(f"{name} is {text!r}; a number from {least} to {most:,} is expected")
    return int(text)


def _isolation(text: str | None) -> bool | None:
    if text is None:
        return None
    if text not in ("committed", "uncommitted"):
        raise BadQuery(f"isolation is {text!r}; committed or uncommitted is expected")
    return text == "committed"
