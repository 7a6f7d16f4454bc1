"""The questions of serdes to a registry, and one in memory for tests (`mock://SCOPE`, as in Confluent's clients)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from broker_registry.schema_types.base import InvalidSchema, Kind, ParsedSchema, ParseSettings, Reference, Resolved
from broker_registry.schema_types.parsers import PARSERS
from broker_streams.serdes import SerdeError
from broker_streams.serdes.schemas.options import Options

INSTALL: Final = "pip install 'broker-cy[registry]'"


class SchemaText(NamedTuple):
    """A schema as a user gives it. The references name versions of subjects."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()


class Known(NamedTuple):
    """A schema of the registry. `text` has its references; `name` is the id, or the GUID of one found by that."""

    name: int | UUID
    parsed: ParsedSchema
    text: SchemaText


class SchemaRegistry(Protocol):
    """Answers may block the first time, and are kept. All calls raise SerdeError: the registry refuses, or has no such
    schema. SerdeUnavailable: it does not answer.
    """

    @property
    def options(self) -> Options: ...

    def knows(self, name: int | UUID) -> bool:
        """Whether `schema` answers at once, with a schema or an error."""
        ...

    def schema(self, name: int | UUID) -> Known: ...

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """A schema that need not be registered; its references must be."""
        ...

    def registered(self, subject: str, schema: SchemaText) -> Known:
        """Register a schema, or find it if `options.registers` is False."""
        ...

    def latest(self, subject: str) -> Known:
        """The newest version of a subject."""
        ...


def parse(kind: Kind, text: str, references: tuple[Resolved, ...] = ()) -> ParsedSchema:
    """Raises SerdeError: the text is no schema, or the libraries of schemas are missing."""
    try:
        return PARSERS[kind](text, references, ParseSettings())
    except ImportError as error:
        raise SerdeError(f"serdes with schemas need more libraries: {INSTALL} (missing: {error.name})") from None
    except InvalidSchema as error:
        raise SerdeError(f"the text is no {kind.value} schema: {error}") from None


class MemoryRegistry:
    """Ids count from 1. A text that has an id keeps it; subjects are not checked for compatibility."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._by_id: dict[int, tuple[SchemaText, ParsedSchema]] = {}
        self._ids: dict[SchemaText, int] = {}
        # The ids of each subject, in the order of its versions.
        self.subjects: dict[str, list[int]] = {}

    def with_options(self, options: Options) -> MemoryRegistry:
        """The same registry for an application with other settings."""
        found = MemoryRegistry(options)
        found._by_id, found._ids, found.subjects = self._by_id, self._ids, self.subjects
        return found

    def knows(self, name: int | UUID) -> bool:
        return True

    def schema(self, name: int | UUID) -> Known:
        if not isinstance(name, int) or name not in self._by_id:
            raise SerdeError(f"the registry has no schema {name}")
        text, parsed = self._by_id[name]
        return Known(name, parsed, text)

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        return parse(schema.kind, schema.text, tuple(self._resolved(schema.references, {}).values()))

    def _resolved(self, references: tuple[Reference, ...], found: dict[str, Resolved]) -> dict[str, Resolved]:
        for each in references:
            versions = self.subjects.get(each.subject, [])
            if not 0 < each.version <= len(versions):
                raise SerdeError(f"reference {each.name}: subject {each.subject} has no version {each.version}")
            text = self._by_id[versions[each.version - 1]][0]
            self._resolved(text.references, found)
            found.setdefault(each.name, Resolved(each.name, text.text))
        return found

    def registered(self, subject: str, schema: SchemaText) -> Known:
        parsed = self.parsed(schema)
        if self.options.normalizes:
            parsed = parsed.normalized()
        canonical = schema._replace(text=parsed.canonical)
        versions = self.subjects.get(subject, [])
        found = next((each for each in versions if self._by_id[each][0] == canonical), self._ids.get(canonical))
        if found is None or found not in versions:
            if not self.options.registers:
                raise SerdeError(f"subject {subject} does not have this schema, and auto.register.schemas is false")
            if found is None:
                found = self._ids[canonical] = len(self._by_id) + 1
                self._by_id[found] = canonical, parsed
            self.subjects.setdefault(subject, versions).append(found)
        return self.schema(found)

    def latest(self, subject: str) -> Known:
        versions = self.subjects.get(subject)
        if not versions:
            raise SerdeError(f"the registry has no subject {subject}")
        return self.schema(versions[-1])


def checked_rules(more: Any, what: str) -> None:
    """Raises SerdeError: a schema has rules (data contracts), such as encryption, which are not applied here."""
    rules = (more or {}).get("ruleSet") or {}
    named = [str(rule.get("name")) for kind in rules.values() for rule in kind or () if not rule.get("disabled")]
    if named:
        raise SerdeError(f"{what} has rules, which are not applied here: {', '.join(named)}")
