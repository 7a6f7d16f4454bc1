"""Checks of schemas as functions of plain values: they run on the event loop if the texts are short, else in a worker.

A `Source` is a text with the texts that it refers to. Parsed schemas stay where they were parsed, in a cache that is
bounded in bytes; only texts and messages go between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from broker_registry import compatibility
from broker_registry.compatibility import Level, Previous
from broker_registry.kept import Kept
from broker_registry.schema_types.base import InvalidSchema, Kind, ParsedSchema, ParseSettings, Policy, Resolved
from broker_registry.schema_types.parsers import PARSERS

CACHE_BYTES_MAX: Final = 32 << 20
"""Estimated memory of the parsed schemas that a process keeps."""


class Source(NamedTuple):
    """A schema by its text: `kind` is the value of Kind. `references` has each text behind those it refers to."""

    kind: str
    text: str
    references: tuple[Resolved, ...] = ()

    @property
    def length(self) -> int:
        return len(self.text) + sum(len(each.text) for each in self.references)


class Canonical(NamedTuple):
    """The stored form of a schema. `name` is that of its record or message."""

    text: str
    name: str | None


class Canonicalize(NamedTuple):
    """The check of one schema: its canonical form. Raises InvalidSchema."""

    source: Source
    settings: ParseSettings

    def run(self, cache: ParsedCache) -> Canonical:
        parsed = cache.parsed(self.source, self.settings)
        return Canonical(parsed.canonical, parsed.name)

    @property
    def length(self) -> int:
        return self.source.length


class FindEquivalent(NamedTuple):
    """The search for a schema that is the same with another text. Returns the first index among the candidates."""

    source: Source
    candidates: tuple[Source, ...]

    def run(self, cache: ParsedCache) -> int | None:
        parsed = cache.parsed(self.source)
        for index, each in enumerate(self.candidates):
            with suppress(InvalidSchema):
                if each.kind == self.source.kind and parsed.is_equivalent(cache.parsed(each)):
                    return index
        return None

    @property
    def length(self) -> int:
        return self.source.length + sum(each.length for each in self.candidates)


class Compare(NamedTuple):
    """The check against earlier versions, in ascending order. Returns messages, none if the schema is compatible."""

    source: Source
    previous: tuple[tuple[int, Source], ...]
    level: Level
    policy: Policy

    def run(self, cache: ParsedCache) -> list[str]:
        # A version is parsed when it is needed: most levels look at the newest one only.
        previous = (Previous(version, cache.parsed(source)) for version, source in reversed(self.previous))
        return compatibility.messages(cache.parsed(self.source), previous, self.level, self.policy)

    @property
    def length(self) -> int:
        checked = self.previous if self.level.is_transitive else self.previous[-1:]
        return self.source.length + sum(each.length for _, each in checked)


class HasFields(NamedTuple):
    """The names among `names` that are top-level fields of the schema."""

    source: Source
    names: tuple[str, ...]

    def run(self, cache: ParsedCache) -> list[str]:
        parsed = cache.parsed(self.source)
        return [name for name in self.names if parsed.has_top_level_field(name)]

    @property
    def length(self) -> int:
        return self.source.length


class Format(NamedTuple):
    """The text of a schema in a format."""

    source: Source
    name: str

    def run(self, cache: ParsedCache) -> str:
        return cache.parsed(self.source).formatted(self.name)

    @property
    def length(self) -> int:
        return self.source.length


Check = Canonicalize | FindEquivalent | Compare | HasFields | Format


class ParsedCache:
    """The parsed schemas of one process, the least recently used ones dropped first."""

    def __init__(
        self,
        bytes_max: int = CACHE_BYTES_MAX,
        parsers: Mapping[Kind, Callable[[str, Sequence[Resolved], ParseSettings], ParsedSchema]] = PARSERS,
    ) -> None:
        self._parsers = parsers
        self._kept: Kept[tuple[Source, ParseSettings], ParsedSchema] = Kept(bytes_max)

    def parsed(self, source: Source, settings: ParseSettings | None = None) -> ParsedSchema:
        """Raises InvalidSchema."""
        settings = settings or ParseSettings()
        found = self._kept.get((source, settings))
        if found is not None:
            return found
        if settings.validates and not settings.is_new:
            # The lookup before a registration. The checks of new schemas only refuse: what they let pass is the same
            # without them, and is parsed once.
            with suppress(InvalidSchema):
                found = self.parsed(source, replace(settings, is_new=True))
                self._kept.put((source, settings), found, found.size_bytes)
                return found
        try:
            kind = Kind(source.kind)
        except ValueError:
            raise InvalidSchema(f"Invalid schema type {source.kind}") from None
        found = self._parsers[kind](source.text, source.references, settings)
        self._kept.put((source, settings), found, found.size_bytes)
        # The checks that follow name the schema by its canonical text.
        self._kept.put((source._replace(text=found.canonical), ParseSettings()), found, found.size_bytes)
        return found
