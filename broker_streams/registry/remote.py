"""A registry behind a REST API. Each answer is kept, within bounds: a record waits for none that was asked before.

A call that must ask waits for the answer in a thread of its own, so that it may be made on an event loop too. That
holds up the loop, for http.read.timeout.ms at most for each URL: hosts ask ahead (ahead.py) for what they know of.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from broker_cy.client.errors import ClientError, Failure
from broker_registry.checks import CACHE_BYTES_MAX
from broker_registry.client import Refused, RegistryClient, Schema
from broker_registry.client_settings import settings_from
from broker_registry.kept import Kept
from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_registry.serdes.values import parsed_of
from broker_streams.serdes import SerdeError, SerdeUnavailable
from broker_streams.serdes.schemas.lookups import INSTALL, Known, SchemaText, checked_rules
from broker_streams.serdes.schemas.options import Options

TIMEOUT_MS: Final = 10_000
"""The default of http.read.timeout.ms: well below the time after which a group drops a member (45 s)."""
SUBJECTS_MAX: Final = 1_000
"""Subjects, and refusals, that are kept."""
REFUSED_S: Final = 30.0
"""A refusal is kept so long: a schema may be registered meanwhile."""

T = TypeVar("T")


class RemoteRegistry:
    """See SchemaRegistry. Threads may share it. `texts` are the settings of Confluent's clients."""

    def __init__(self, texts: Mapping[str, str], options: Options) -> None:
        """Raises ClientError."""
        self.options = options
        self._texts = dict(texts)
        timeout_ms = int(texts.get("http.read.timeout.ms", TIMEOUT_MS))
        self._client = RegistryClient(settings_from(texts, "the application", timeout_s=timeout_ms / 1000))
        self._lock = threading.Lock()
        self._schemas: Kept[int | UUID, Known] = Kept(CACHE_BYTES_MAX)
        self._parsed: Kept[SchemaText, ParsedSchema] = Kept(CACHE_BYTES_MAX)
        self._ids: OrderedDict[tuple[str, SchemaText], Known] = OrderedDict()
        self._latest: OrderedDict[str, Known] = OrderedDict()
        self._refused: OrderedDict[Any, tuple[str, float]] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process, which has a cache of its own."""
        return RemoteRegistry, (self._texts, self.options)

    def knows(self, name: int | UUID) -> bool:
        with self._lock:
            return self._schemas.get(name) is not None or self._refusal(name) is not None

    def schema(self, name: int | UUID) -> Known:
        with self._lock:
            found = self._schemas.get(name)
        if found is None:
            found = self._asked(name, lambda: self._schema(name))
            with self._lock:
                self._schemas.put(name, found, found.parsed.size_bytes)
        return found

    async def _schema(self, name: int | UUID) -> Known:
        ask = self._client.schema_of_guid(name) if isinstance(name, UUID) else self._client.schema_of(name)
        schema = await ask
        checked_rules(schema.more, f"schema {name}")
        return Known(name, await parsed_of(self._client, schema), _text(schema))

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        with self._lock:
            found = self._parsed.get(schema)
        if found is None:
            found = self._asked(schema, lambda: parsed_of(self._client, _schema(schema)))
            with self._lock:
                self._parsed.put(schema, found, found.size_bytes)
        return found

    def registered(self, subject: str, schema: SchemaText) -> Known:
        place = subject, schema
        with self._lock:
            found = self._ids.get(place)
        if found is None:
            found = self._asked(place, lambda: self._registered(subject, schema))
            self._keep(self._ids, place, found)
        return found

    async def _registered(self, subject: str, schema: SchemaText) -> Known:
        normalizes = self.options.normalizes
        if self.options.registers:
            name = await self._client.register(subject, _schema(schema), normalizes=normalizes)
        else:
            try:
                name = (await self._client.look_up(subject, _schema(schema), normalizes=normalizes)).id
            except Refused as error:
                if error.is_not_found:
                    raise SerdeError(f"{error.reason}, and auto.register.schemas is false") from None
                raise
        return await self._schema(name)

    def latest(self, subject: str) -> Known:
        with self._lock:
            found = self._latest.get(subject)
        if found is None:
            found = self._asked(subject, lambda: self._newest(subject))
            self._keep(self._latest, subject, found)
        return found

    async def _newest(self, subject: str) -> Known:
        return await self._schema((await self._client.version(subject)).id)

    # ------------------------------------------------------------------------------------------------ asking

    def _asked(self, place: Any, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait for an answer. Raises SerdeError, SerdeUnavailable."""
        with self._lock:
            refusal = self._refusal(place)
        if refusal is not None:
            raise SerdeError(refusal)
        try:
            return _in_thread(ask)
        except SerdeError as error:
            refusal = str(error)
        except Refused as error:
            if error.status >= 500:
                raise SerdeUnavailable(f"the registry {self._client.name}: {error}") from None
            refusal = f"the registry refuses it: {error}"
        except ClientError as error:
            if error.failure in (Failure.INVALID, Failure.MALFORMED):
                raise SerdeError(str(error)) from None
            raise SerdeUnavailable(f"the registry {self._client.name} does not answer: {error.reason}") from None
        except ImportError as error:
            raise SerdeError(f"serdes with schemas need more libraries: {INSTALL} (missing: {error.name})") from None
        except ValueError as error:
            refusal = f"the schema cannot be used: {error}"
        self._keep(self._refused, place, (refusal, time.monotonic() + REFUSED_S))
        raise SerdeError(refusal)

    def _refusal(self, place: Any) -> str | None:
        found = self._refused.get(place)
        if found is None:
            return None
        reason, until_s = found
        if time.monotonic() >= until_s:
            del self._refused[place]
            return None
        return reason

    def _keep(self, kept: OrderedDict[Any, Any], place: Any, value: Any) -> None:
        with self._lock:
            kept[place] = value
            while len(kept) > SUBJECTS_MAX:
                kept.popitem(last=False)


def _in_thread(ask: Callable[[], Awaitable[T]]) -> T:
    """Run an awaitable to its end, whether or not this thread has an event loop that runs."""
    answers: list[T] = []
    errors: list[BaseException] = []

    async def run() -> T:
        return await ask()

    def target() -> None:
        try:
            answers.append(asyncio.run(run()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=target, name="schema-registry", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


def _schema(text: SchemaText) -> Schema:
    return Schema(text.kind.value, text.text, text.references)


def _text(schema: Schema) -> SchemaText:
    return SchemaText(Kind(schema.kind), schema.text, schema.references)
