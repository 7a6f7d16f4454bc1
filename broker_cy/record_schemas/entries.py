"""The records of the registry's topic, as far as the check of records needs them; pure functions, called in a worker.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
                                  {"subject","version","id","md5","schemaType","schema","deleted",...}
    {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}    {"subject","version"}
    {"keytype":"CONFIG","subject":"orders-value","magic":0}            {"alias",...}

Records of other kinds, and those that cannot be read, change nothing. Schemas are not parsed: the name of the record is
a member of Avro's and JSON's text, and is found in Protobuf's text by its first words.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import WireError
from broker_cy.record_schemas.known import AliasSet, Entry, SchemaVersion, VersionGone, VersionsGone
from broker_cy.wire import messages
from broker_cy.wire.records import Record, decode_batches

TEXT_CHARACTERS_MAX: Final = 2_000_000
"""Longer texts are not searched for the name of their record: that would take more than 20 ms."""

_DEFAULT_CONTEXT: Final = ":.:"
_OTHER_CONTEXT: Final = ":."
_GUID_BYTES: Final = 16
# Comments and strings, braces, and the two statements that name a message.
_PROTO_WORDS: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    r"|(?P<brace>[{}])|\bpackage\s+(?P<package>[\w.]+)\s*;|\bmessage\s+(?P<message>\w+)",
    re.DOTALL,
)


class Part(NamedTuple):
    """The entries of a part of the topic, and the offset behind it."""

    entries: list[Entry]
    next_offset: int


def read_part(data: bytes, aborted: Sequence[messages.FetchResponse.AbortedTransaction], start: int, end: int) -> Part:
    """Return the entries of committed records from `start` up to `end`, the last stable offset. Raises WireError,
    CorruptPayload and PayloadTooLarge for bytes that are not batches.
    """
    hidden = AbortedTransactions(aborted)
    entries: list[Entry] = []
    next_offset = start
    for batch in decode_batches(data):
        if batch.base_offset >= end:
            break
        if not batch.is_valid():
            raise WireError(f"the batch at offset {batch.base_offset} is corrupt: its checksum is wrong")
        if not hidden.hides(batch) and not batch.is_control:
            entries.extend(entries_of(each for each in batch if each.offset >= start))
        next_offset = max(next_offset, batch.last_offset + 1)
    return Part(entries, next_offset)


def entries_of(records: Iterable[Record]) -> Iterator[Entry]:
    for record in records:
        entry = entry_of(record.key, record.value)
        if entry is not None:
            yield entry


def entry_of(key: bytes | None, value: bytes | None) -> Entry | None:
    """Return the change that a record makes; None if it makes none."""
    name = _object(key)
    subject = _subject(name.get("subject"))
    if subject is None:
        return None
    found = _object(value)
    match name.get("keytype"):
        case "SCHEMA":
            version = name.get("version")
            return _version(subject, version, found) if isinstance(version, int) else None
        case "DELETE_SUBJECT":
            last = found.get("version")
            return VersionsGone(subject, last) if isinstance(last, int) else None
        case "CONFIG":
            return AliasSet(subject, _subject(found.get("alias")))
    return None


def _object(data: bytes | None) -> dict[str, Any]:
    """Return the members of a JSON object; none if the bytes are something else."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _subject(name: object) -> str | None:
    """Return a subject of the default context without its prefix; None for others."""
    if not isinstance(name, str) or not name:
        return None
    name = name.removeprefix(_DEFAULT_CONTEXT)
    return None if name.startswith(_OTHER_CONTEXT) else name


def _version(subject: str, version: int, value: dict[str, Any]) -> Entry | None:
    schema_id, text = value.get("id"), value.get("schema")
    if not value or value.get("deleted"):
        return VersionGone(subject, version)
    if not isinstance(schema_id, int) or not isinstance(text, str):
        return None
    return SchemaVersion(subject, version, schema_id, _guid(value, text), record_name(value.get("schemaType"), text))


def _guid(value: dict[str, Any], text: str) -> bytes | None:
    """Return the GUID: the hash that the registry stored, or that of the text if nothing else is in it."""
    md5 = value.get("md5")
    if isinstance(md5, str):
        try:
            found = base64.b64decode(md5, validate=True)
        except (binascii.Error, ValueError):
            return None
        return found if len(found) == _GUID_BYTES else None
    if value.get("references") or value.get("metadata") is not None or value.get("ruleSet") is not None:
        # A registry of an older version, whose clients know no GUIDs.
        return None
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def record_name(schema_type: object, text: str) -> str | None:
    """Return the full name of an Avro record, the title of a JSON schema, or the full name of the first message of a
    .proto file; None if the schema has none.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        return None
    if schema_type == "PROTOBUF":
        return _message_name(text)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict):
        return None
    if schema_type == "JSON":
        title = schema.get("title")
        return title if isinstance(title, str) else None
    name, namespace = schema.get("name"), schema.get("namespace")
    if schema.get("type") not in ("record", "error") or not isinstance(name, str):
        return None
    return f"{namespace}.{name}" if "." not in name and isinstance(namespace, str) and namespace else name


def _message_name(text: str) -> str | None:
    package, depth = "", 0
    for found in _PROTO_WORDS.finditer(text):
        if found["brace"]:
            depth += 1 if found["brace"] == "{" else -1
        elif found["package"] and depth == 0:
            package = f"{found['package']}."
        elif found["message"] and depth == 0:
            return package + found["message"]
    return None
