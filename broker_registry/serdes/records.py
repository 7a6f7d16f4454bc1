"""Whole records by the schemas of a registry, for tools that show and search them: nothing here raises or waits long.

Schemas are asked for once, and kept. While the registry does not answer, records are shown as bytes, and the registry
is asked again after RETRY_S, then after twice as long each time, up to RETRY_S_MAX. `notice` says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from broker_cy.client.decoded import Part, SchemaName, Seen, undecoded
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.wire.records import Record
from broker_cy.wire.schema_header import MAGIC_GUID
from broker_registry.client import Refused, RegistryClient
from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_registry.serdes.framing import Framed, framed
from broker_registry.serdes.values import Values, json_value

RETRY_S: Final = 5.0
RETRY_S_MAX: Final = 60.0
UNKNOWN_S: Final = 30.0
"""The registry is asked again for an id that it does not have after this time."""
SCHEMAS_MAX: Final = 10_000
"""Schemas whose subjects, and whose problems, are kept."""
ASKED_AT_ONCE: Final = 8
LOOK_BYTES_MAX: Final = 64 << 10
"""Larger parts are decoded in a thread: a message of 1 MB takes 0.3 s."""
_PLACES_MAX: Final = 1_000
"""Subjects of one schema that are kept."""

K = TypeVar("K")
T = TypeVar("T")
Name = int | UUID
Places = tuple[tuple[str, int], ...]


class RecordDecoder:
    """See broker_cy.client.decoded.Decoder. It belongs to one event loop.

    Without `keys` or `values`, that part stays as it is. `wait_s` limits one request for schemas; None: the settings
    of the client do.
    """

    def __init__(
        self,
        client: RegistryClient,
        *,
        keys: bool = True,
        values: bool = True,
        wait_s: float | None = None,
        bytes_max: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._values = Values(client)
        self._keys, self._with_values = keys, values
        self._wait_s = wait_s
        self._bytes_max = bytes_max
        self._clock = clock
        self._places: OrderedDict[Name, Places] = OrderedDict()
        self._named: OrderedDict[tuple[Name, str, bool], SchemaName] = OrderedDict()
        # Schemas that cannot be used: why, and when the registry may be asked again.
        self._unusable: OrderedDict[Name, tuple[str, float]] = OrderedDict()
        self._asking: dict[Name, asyncio.Task[None]] = {}
        self._permits = asyncio.Semaphore(ASKED_AT_ONCE)
        self._down = ""
        self._down_until_s = 0.0
        self._retry_s = RETRY_S

    @property
    def notice(self) -> str:
        """Why the registry does not answer now; empty if it does."""
        return self._down

    @property
    def retry_in_s(self) -> float:
        """Seconds until the registry is asked again; 0 if it may be asked now."""
        return max(0.0, self._down_until_s - self._clock()) if self._down else 0.0

    def look(self, topic: str, record: Record) -> Seen:
        """Return a record with what is known now, without waiting; a part above LOOK_BYTES_MAX is not decoded yet."""
        return _seen(record, *(self._looked(self._part(topic, record, is_key=is_key)) for is_key in (True, False)))

    async def load(self, records: Sequence[Record]) -> None:
        """Ask for the schemas of records that are not known, and wait for a bounded time."""
        names: set[Name] = set()
        turns = Turns()
        for record in records:
            if not _is_plain(record):
                names |= self._names(record)
                await turns.pause()
        await self._load(names)

    async def seen(self, topic: str, records: Sequence[Record]) -> list[Seen]:
        """Return records, once their schemas were asked for."""
        turns = Turns()
        found = []
        await self.load(records)
        for record in records:
            await turns.pause()
            if _is_plain(record):
                found.append(undecoded(record))
                continue
            if self._may_ask and (names := self._names(record)):
                # The schema was dropped in favour of others of these records.
                await self._load(names)
            key = await _whole(self._part(topic, record, is_key=True))
            value = await _whole(self._part(topic, record, is_key=False))
            found.append(_seen(record, key, value))
        return found

    # ------------------------------------------------------------------------------------------------ one part

    def _part(self, topic: str, record: Record, *, is_key: bool) -> Part | _Payload:
        """Return what is known of a key or value without decoding it, or what must be decoded."""
        data = record.key if is_key else record.value
        try:
            parts = self._framed(record, data, is_key=is_key)
        except ValueError as error:
            return Part(data, None, str(error))
        if parts is None or data is None:
            return Part(data)
        parsed = self._values.known(parts.name)
        if parsed is None:
            if parts.name in self._unusable:
                return Part(data, None, self._unusable[parts.name][0])
            reason = f"the registry does not answer: {self._down}" if self._down else "its schema is not loaded yet"
            return Part(data, None, reason, is_final=False)
        schema = self._name(parsed, parts, topic, is_key=is_key)
        if self._bytes_max is not None and len(parts.payload) > self._bytes_max:
            return Part(data, None, f"{schema}: more than {self._bytes_max:,} bytes are not decoded here")
        return _Payload(parsed, schema, parts.payload, data)

    @staticmethod
    def _looked(found: Part | _Payload) -> Part:
        if isinstance(found, Part):
            return found
        if len(found.payload) > LOOK_BYTES_MAX:
            return Part(found.data, None, f"{found.schema}: not decoded yet", is_final=False)
        return _decoded(found)

    def _framed(self, record: Record, data: bytes | None, *, is_key: bool) -> Framed | None:
        """Raises ValueError for a header with another format."""
        if data is None or not (self._keys if is_key else self._with_values):
            return None
        return framed(data, record.headers, is_key=is_key)

    def _name(self, parsed: ParsedSchema, parts: Framed, topic: str, *, is_key: bool) -> SchemaName:
        place = parts.name, topic, is_key
        found = self._named.get(place)
        if found is None:
            subject, version = _place(self._places.get(parts.name, ()), topic, "key" if is_key else "value")
            found = SchemaName(parsed.kind.value, parts.id, parts.guid, subject, version)
            self._keep(self._named, place, found)
        return found

    # ------------------------------------------------------------------------------------------------ schemas

    @property
    def _may_ask(self) -> bool:
        return not self._down or self._clock() >= self._down_until_s

    def _names(self, record: Record) -> set[Name]:
        """Return the schemas of a record that must be asked for."""
        found = set()
        for data, is_key in ((record.key, True), (record.value, False)):
            try:
                parts = self._framed(record, data, is_key=is_key)
            except ValueError:
                continue
            if parts is not None and self._values.known(parts.name) is None and not self._is_unusable(parts.name):
                found.add(parts.name)
        return found

    def _is_unusable(self, name: Name) -> bool:
        return name in self._unusable and self._clock() < self._unusable[name][1]

    async def _load(self, names: Iterable[Name]) -> None:
        """Ask for schemas, in turn with other callers, and wait for the answers."""
        if not self._may_ask:
            return
        for name in names:
            if name not in self._asking:
                self._asking[name] = asyncio.create_task(self._ask(name))
        tasks = [self._asking[name] for name in names]
        if not tasks:
            return
        # The tasks go on behind the limit: their answers are for the next look.
        _, late = await asyncio.wait(tasks, timeout=self._wait_s)
        if late and not self._down:
            self._is_down(f"{self._client.name}: no answer within {self._wait_s:g} s")

    async def _ask(self, name: Name) -> None:
        try:
            await self._answer(name)
        finally:
            self._asking.pop(name, None)

    async def _answer(self, name: Name) -> None:
        async with self._permits:
            if not self._may_ask:
                return
            try:
                # The subjects come first: once the schema is known, records are shown with both.
                places = await self._places_of(name) if isinstance(name, int) else ()
                await self._values.schema(name)
                self._keep(self._places, name, places)
            except Refused as error:
                if not error.is_not_found:
                    self._is_down(str(error))
                    return
                self._keep(self._unusable, name, (error.reason, self._clock() + UNKNOWN_S))
            except ClientError as error:
                if error.failure is Failure.MALFORMED:
                    self._keep(self._unusable, name, (str(error), self._clock() + UNKNOWN_S))
                    return
                self._is_down(error.reason)
                return
            except ValueError as error:
                reason = f"its schema {name} cannot be used: {error}"
                self._keep(self._unusable, name, (reason, self._clock() + UNKNOWN_S))
            else:
                self._unusable.pop(name, None)
            self._down, self._retry_s = "", RETRY_S

    async def _places_of(self, name: int) -> Places:
        try:
            return tuple((await self._client.places_of(name))[:_PLACES_MAX])
        except Refused:
            # An older registry, or a login without this right: the schema alone is enough.
            return ()

    @staticmethod
    def _keep(kept: OrderedDict[K, T], name: K, value: T) -> None:
        kept[name] = value
        while len(kept) > SCHEMAS_MAX:
            kept.popitem(last=False)

    def _is_down(self, reason: str) -> None:
        now_s = self._clock()
        if self._down and now_s < self._down_until_s:
            # Several requests failed at once.
            return
        self._down, self._down_until_s = reason, now_s + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)


def _place(places: Places, topic: str, side: str) -> tuple[str, int] | tuple[None, None]:
    """Return the subject and version to show: that of the topic, else one that has the topic in its name, else any."""
    exact = f"{topic}-{side}"
    best: tuple[str, int] | None = None
    for place in places:
        # Without the context of the subject.
        name = place[0].rpartition(":")[2]
        if name == exact:
            return place
        if best is None and name.startswith(f"{topic}-"):
            best = place
    return best or (places[0] if places else (None, None))


def _is_plain(record: Record) -> bool:
    """Return whether a record surely names no schema: most records of topics without schemas."""
    key, value = record.key, record.value
    return not record.headers and not (key and key[0] <= MAGIC_GUID) and not (value and value[0] <= MAGIC_GUID)


class _Payload(NamedTuple):
    """A key or value that can be decoded. `data` are its bytes with the header."""

    parsed: ParsedSchema
    schema: SchemaName
    payload: bytes
    data: bytes


def _seen(record: Record, key: Part, value: Part) -> Seen:
    if key.data is record.key and value.data is record.value:
        return Seen(record, key, value)
    return Seen(Record(record.offset, record.timestamp, key.data, value.data, record.headers), key, value)


async def _whole(found: Part | _Payload) -> Part:
    if isinstance(found, Part):
        return found
    return await asyncio.to_thread(_decoded, found) if len(found.payload) > LOOK_BYTES_MAX else _decoded(found)


def _decoded(given: _Payload) -> Part:
    parsed, schema, payload, data = given
    try:
        value = parsed.decode(payload)
        # JSON stays as it was written. A lone surrogate becomes its JSON escape again.
        text = "" if parsed.kind is Kind.JSON else json.dumps(json_value(value), ensure_ascii=False)
    except Exception as error:
        # Also what the libraries raise by mistake: one record must not end a page.
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error) or type(error).__name__
        if parsed.kind is Kind.JSON and _is_json(payload):
            return Part(payload, schema, f"against {schema}: {reason}")
        return Part(data, None, f"no record of {schema}: {reason}")
    schema = schema._replace(message=parsed.message_of(payload))
    return Part(text.encode(errors="backslashreplace") or payload, schema)


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return True
