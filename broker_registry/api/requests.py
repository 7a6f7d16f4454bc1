"""Requests and answers of the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import orjson

from broker_cy.security.acls import Operation
from broker_registry.errors import RegistryError, invalid_version
from broker_registry.operations.wanted import LATEST, NO_ID, Wanted
from broker_registry.rules import InvalidObject, Metadata, RuleSet
from broker_registry.schema_types.base import Reference
from broker_registry.security.access import NOTHING, Access
from broker_registry.store.keys import NUMBER_MAX
from broker_registry.store.values import AVRO, SchemaContent
from broker_registry.subject_names import qualified

REFERENCES_MAX: Final = 1_000
"""Direct references of one schema."""


class Answer(NamedTuple):
    """`body` is JSON; None is an empty body. `text` is a body that is not encoded further. `content_type` is its type;
    empty: the one that the client prefers.
    """

    body: Any = None
    status: int = 200
    text: bytes | None = None
    content_type: str = ""

    def encode(self) -> bytes:
        if self.text is not None:
            return self.text
        return b"" if self.status == 204 else orjson.dumps(self.body)


@dataclass(slots=True)
class Request:
    """A request as handlers see it. `path` has the variables of its path, decoded; `access` is what its client may do,
    and nothing until it is set. `asked` is the subject in the path, if that is an alias of another one.
    """

    method: str
    segments: tuple[str, ...]
    query: str
    body: bytes = b""
    path: Mapping[str, str] = field(default_factory=dict)
    access: Access = NOTHING
    asked: str | None = None
    _parameters: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, method: str, raw_path: bytes, query: bytes) -> Request:
        """Raises RegistryError. The path is split before it is decoded: names of subjects may have slashes."""
        try:
            segments = tuple(unquote_to_bytes(part).decode() for part in raw_path.strip(b"/").split(b"/"))
        except UnicodeDecodeError:
            raise RegistryError(400, "the path is no valid UTF-8") from None
        return cls(method, segments, query.decode("latin-1"))

    @property
    def parameters(self) -> dict[str, list[str]]:
        if self._parameters is None:
            self._parameters = {}
            for name, value in parse_qsl(self.query, keep_blank_values=True):
                self._parameters.setdefault(name, []).append(value)
        return self._parameters

    def text(self, name: str, default: str | None = None) -> str | None:
        found = self.parameters.get(name)
        return found[0] if found else default

    def texts(self, name: str) -> list[str]:
        return self.parameters.get(name, [])

    def flag(self, name: str) -> bool:
        return (self.text(name) or "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Raises RegistryError 404 as Confluent's registry does for a parameter that is not a number."""
        found = self.text(name)
        if found is None or found == "":
            return default
        try:
            return int(found)
        except ValueError:
            raise RegistryError(404, "HTTP 404 Not Found") from None

    def page(self, found: list[Any], default: int | None = None, limit_max: int | None = None) -> list[Any]:
        """Return the part of a list that `offset` and `limit` ask for: `default` elements without a limit, or with one
        above `limit_max`; None for all.
        """
        offset, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        if limit <= 0 or (limit_max is not None and limit > limit_max):
            return found[offset:] if default is None else found[offset : offset + default]
        return found[offset : offset + limit]

    def json(self) -> Mapping[str, Any]:
        """Return the object of the body. Raises RegistryError."""
        if not self.body:
            raise RegistryError(422, "The request body must not be null")
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise RegistryError(400, f"the body is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise RegistryError(400, f"the body is a {type(found).__name__}; a JSON object is expected")
        return found


def version_of(text: str) -> int:
    """Return the number of a version, LATEST for `latest` and -1. Raises RegistryError."""
    text = text.strip()
    if text.lower() == "latest":
        return LATEST
    try:
        version = int(text)
    except ValueError:
        raise invalid_version(text) from None
    if version == LATEST or 1 <= version <= NUMBER_MAX:
        return version
    raise invalid_version(text)


def id_of(text: str) -> int:
    """Raises RegistryError 404 as Confluent's registry does for an id that is not a number."""
    if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 12:
        return int(text)
    raise RegistryError(404, "HTTP 404 Not Found")


def wanted_of(request: Request, subject: str) -> Wanted:
    """Return the schema of a request for a subject. Raises RegistryError, also if the client may not read a schema that
    it refers to: messages about the schema would show parts of it.
    """
    found = request.json()
    try:
        content = SchemaContent(
            _text(found, "schemaType") or AVRO,
            _text(found, "schema") or "",
            _references(found.get("references")),
            Metadata.parse(found.get("metadata")),
            RuleSet.parse(found.get("ruleSet")),
        )
        version, schema_id = _number(found, "version", 0), _number(found, "id", NO_ID)
    except InvalidObject as error:
        raise RegistryError(422, str(error)) from None
    for each in content.references:
        request.access.require(Operation.DESCRIBE, qualified(subject, each.subject))
    return Wanted(subject, content, version, schema_id)


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidObject(f"{name} is {value!r}; a text is expected")


def _number(found: Mapping[str, Any], name: str, default: int) -> int:
    value = found.get(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= NUMBER_MAX:
        return value
    raise InvalidObject(f"{name} is {value!r}; a number from -1 to {NUMBER_MAX:,} is expected")


def _references(value: object) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidObject(f"references is {value!r}; a list is expected")
    if len(value) > REFERENCES_MAX:
        raise InvalidObject(f"references has {len(value):,} entries; at most {REFERENCES_MAX:,} are allowed")
    found = []
    for each in value:
        if not isinstance(each, dict):
            raise InvalidObject(f"a reference is {each!r}; an object is expected")
        name, subject, version = _text(each, "name"), _text(each, "subject"), each.get("version")
        if name is None or subject is None or not isinstance(version, int):
            raise InvalidObject(f"Invalid reference: name={name!r}, subject={subject!r}, version={version!r}")
        found.append(Reference(name, subject, version))
    return tuple(found)
