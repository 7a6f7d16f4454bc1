"""Requests and answers of the REST API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import orjson

from broker_cy.security.acls import Operation
from broker_registry.errors import RegistryError, invalid_schema, invalid_version
from broker_registry.json_types import InvalidObject, as_number, as_object, as_text, whole_number
from broker_registry.operations.wanted import LATEST, NO_ID, Wanted
from broker_registry.rules import Metadata, RuleSet
from broker_registry.schema_types.base import Reference
from broker_registry.security.access import NOTHING, Access
from broker_registry.store.values import AVRO, SchemaContent
from broker_registry.subject_names import qualified

REFERENCES_MAX: Final = 1_000
"""Direct references of one schema."""
_TAGS: Final = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


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
        if b"%" in raw_path and _BAD_ESCAPE.search(raw_path):
            raise RegistryError(400, "the path has a % without two hexadecimal digits behind it")
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
        number = whole_number(found.strip())
        if number is None:
            raise RegistryError(404, "HTTP 404 Not Found")
        return number

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
            raise _no_object()
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise RegistryError(400, f"the body is no JSON: {error}") from None
        if found is None:
            raise _no_object()
        if not isinstance(found, dict):
            raise RegistryError(400, f"the body is a {type(found).__name__}; a JSON object is expected")
        return found


def _no_object() -> RegistryError:
    return RegistryError(422, "The request body must not be null")


def version_of(text: str) -> int:
    """Return the number of a version, LATEST for `latest` and -1. Raises RegistryError."""
    name = text.strip()
    if name.lower() == "latest":
        return LATEST
    version = whole_number(name)
    if version is None or not (version == LATEST or version >= 1):
        raise invalid_version(text)
    return version


def id_of(text: str) -> int:
    """Raises RegistryError 404 as Confluent's registry does for an id that 32 bits cannot have."""
    found = whole_number(text)
    if found is None:
        raise RegistryError(404, "HTTP 404 Not Found")
    return found


def wanted_of(request: Request, subject: str) -> Wanted:
    """Return the schema of a request for a subject. Raises RegistryError, also if the client may not read a schema that
    it refers to: messages about the schema would show parts of it.
    """
    found = request.json()
    for name in _TAGS:
        if found.get(name):
            # The schema would be stored without them.
            raise RegistryError(422, f"{name}: changes of tags are not supported")
    try:
        kind = as_text(found.get("schemaType"), "schemaType") or AVRO
        content = SchemaContent(
            kind,
            as_text(found.get("schema"), "schema") or "",
            _references(found.get("references"), kind),
            Metadata.parse(found.get("metadata")),
            RuleSet.parse(found.get("ruleSet")),
        )
        version, schema_id = as_number(found.get("version"), "version"), as_number(found.get("id"), "id")
    except InvalidObject as error:
        raise RegistryError(400, str(error)) from None
    if version is not None and version < LATEST:
        raise invalid_version(str(version))
    for each in content.references:
        request.access.require(Operation.DESCRIBE, qualified(subject, each.subject))
    return Wanted(subject, content, version or 0, NO_ID if schema_id is None or schema_id < 0 else schema_id)


def _references(value: object, kind: str) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidObject(f"references is {value!r}; a list is expected")
    if len(value) > REFERENCES_MAX:
        raise InvalidObject(f"references has {len(value):,} entries; at most {REFERENCES_MAX:,} are allowed")
    return tuple(_reference(as_object(each, "a reference"), kind) for each in value)


def _reference(found: Mapping[str, Any], kind: str) -> Reference:
    name, subject = as_text(found.get("name"), "name"), as_text(found.get("subject"), "subject")
    version = as_number(found.get("version"), "version")
    if name is None or subject is None or version is None:
        shown = f"name='{_shown(name)}', subject='{_shown(subject)}', version={_shown(version)}"
        raise invalid_schema(f"Invalid schema of type {kind}, details: Invalid reference: {{{shown}}}")
    return Reference(name, subject, version)


def _shown(value: str | int | None) -> str:
    return "null" if value is None else str(value)
