"""The values of the records of `_schemas`, members in Confluent's order, without empty ones.

    SCHEMA   {"subject","version","id","md5","schemaType","references","metadata","ruleSet","schema","deleted"}
    CONFIG   {"subject","alias","normalize",...,"compatibilityLevel",...}
    MODE     {"subject","mode"}
    DELETE_SUBJECT {"subject","version"}: all versions up to this one are deleted
    CLEAR_SUBJECT  {"subject"}: forget its deleted versions
    CONTEXT  {"tenant","context"}
    NOOP     {"maxIds":{".":17}}: the last id of each context where schemas were deleted for good

Members that this version does not know are ignored. A value of None deletes the key. Confluent's registry reads no
value of NOOP; its own are None, and change nothing here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from broker_registry.json_types import as_flag, as_text
from broker_registry.rules import Metadata, RuleSet, hashed_with_mark
from broker_registry.schema_types.base import Reference
from broker_registry.store.jackson import dumps
from broker_registry.store.keys import NUMBER_MAX, TENANT, Key, KeyType, schema_key

AVRO: Final = "AVRO"
_MD5_BYTES: Final = 16


class Mode(Enum):
    """The mode of a scope: which schemas may be registered in it."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_import(self) -> bool:
        """Whether schemas arrive with their ids, and are not checked."""
        return self in (Mode.IMPORT, Mode.FORWARD)

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


class UnknownValue(ValueError):
    """The value of a record cannot be read; the message says why. `schema_id` is the id of a schema that cannot be
    read, 0 if the record has none: it must not be given to another schema.
    """

    def __init__(self, message: str, schema_id: int = 0) -> None:
        super().__init__(message)
        self.schema_id = schema_id


class SchemaContent(NamedTuple):
    """The parts of a schema that decide its id."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def md5(self) -> bytes:
        """Return the hash by which schemas are found, Confluent's guid: of text, references, metadata and rules."""
        found = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for each in self.references:
            found.update(each.name.encode() + each.subject.encode() + struct.pack(">i", each.version))
        for value in (self.metadata, self.rule_set):
            for part in hashed_with_mark(value):
                found.update(part)
        return found.digest()


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """A version of a subject. `md5` is that of the content, `own_md5` the one in the record, which encrypted metadata
    have. `timestamp_ms` is the record's.
    """

    subject: str
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False
    md5: bytes = b""
    own_md5: str | None = None
    timestamp_ms: int = -1

    @property
    def guid(self) -> str:
        return str(UUID(bytes=self.md5))

    @property
    def key(self) -> Key:
        return schema_key(self.subject, self.version)

    def deleted(self) -> SchemaValue:
        return replace(self, is_deleted=True)

    def encode(self) -> bytes:
        content = self.content
        members: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        if self.own_md5:
            members["md5"] = self.own_md5
        members["schemaType"] = content.schema_type
        members.update(optional_members(content))
        members["schema"] = content.text
        members["deleted"] = self.is_deleted
        return dumps(members)

    @classmethod
    def decode(cls, key: Key, data: bytes, timestamp_ms: int = -1) -> SchemaValue:
        """Raises UnknownValue."""
        schema_id = 0
        try:
            found = orjson.loads(data)
            schema_id = _number(found, "id")
            content = SchemaContent(
                _text(found, "schemaType") or AVRO,
                found["schema"],
                tuple(map(_reference, found.get("references") or ())),
                Metadata.parse(found.get("metadata")),
                RuleSet.parse(found.get("ruleSet")),
            )
            if not isinstance(content.text, str):
                raise UnknownValue("schema is missing")
            own_md5 = _text(found, "md5")
            md5 = content.md5() if own_md5 is None else base64.b64decode(own_md5)
            if len(md5) != _MD5_BYTES:
                raise UnknownValue(f"md5 has {len(md5)} bytes")
            is_deleted = found.get("deleted") is True
            return cls(key.subject or "", key.version, schema_id, content, is_deleted, md5, own_md5, timestamp_ms)
        except (ValueError, TypeError, KeyError, AttributeError, binascii.Error) as error:
            text = f"the schema of {key.subject} version {key.version} cannot be read: {error}"
            raise UnknownValue(text, schema_id) from None


def _text(found: dict[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is None or isinstance(value, str):
        return value
    raise UnknownValue(f"{name} is {value!r}; a text is expected")


def _number(found: dict[str, Any], name: str, low: int = 0) -> int:
    value = found[name]
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= NUMBER_MAX:
        return value
    raise UnknownValue(f"{name} is {value!r}; a number from {low} to {NUMBER_MAX:,} is expected")


def _reference(found: dict[str, Any]) -> Reference:
    version = _number(found, "version", -1) if found.get("version") else -1
    return Reference(_text(found, "name") or "", _text(found, "subject") or "", version)


def optional_members(content: SchemaContent) -> dict[str, Any]:
    """Return the members of a schema between its type and its text that are not empty."""
    members: dict[str, Any] = {}
    if content.references:
        members["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in content.references
        ]
    if content.metadata is not None:
        members["metadata"] = content.metadata.to_json()
    if content.rule_set is not None:
        members["ruleSet"] = content.rule_set.to_json()
    return members


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a subject, a context or the registry; None: not set. In the order of their JSON."""

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: str | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    def to_json(self, *, level_name: str = "compatibilityLevel") -> dict[str, Any]:
        """Return the members that are set. Answers of updates name the level `compatibility`."""
        found: dict[str, Any] = {}
        for member in fields(self):
            value = getattr(self, member.name)
            if value is None or value == "":
                continue
            name = level_name if member.name == "compatibility_level" else JSON_NAMES[member.name]
            found[name] = value.to_json() if isinstance(value, Metadata | RuleSet) else value
        return found

    @property
    def has_defaults_or_overrides(self) -> bool:
        members = (self.default_metadata, self.override_metadata, self.default_rule_set, self.override_rule_set)
        return any(each is not None for each in members)


JSON_NAMES: Final = {
    "alias": "alias",
    "alias_for_deks": "aliasForDeks",
    "normalize": "normalize",
    "validate_fields": "validateFields",
    "validate_new_schemas": "validateNewSchemas",
    "validate_rules": "validateRules",
    "compatibility_level": "compatibilityLevel",
    "compatibility_policy": "compatibilityPolicy",
    "compatibility_group": "compatibilityGroup",
    "default_metadata": "defaultMetadata",
    "override_metadata": "overrideMetadata",
    "default_rule_set": "defaultRuleSet",
    "override_rule_set": "overrideRuleSet",
}
"""The members of Config by their attributes."""
_FLAGS: Final = ("normalize", "validate_fields", "validate_new_schemas", "validate_rules")


def _with_subject(subject: str | None, members: dict[str, Any]) -> bytes:
    return dumps({"subject": subject, **members} if subject else members)


def encode_config(subject: str | None, config: Config) -> bytes:
    return _with_subject(subject, config.to_json())


def decode_config(key: Key, data: bytes) -> Config:
    """Raises UnknownValue."""
    try:
        return parse_config(orjson.loads(data))
    except (ValueError, TypeError, AttributeError) as error:
        raise UnknownValue(f"the settings of {key.subject} cannot be read: {error}") from None


def parse_config(found: dict[str, Any]) -> Config:
    """Return settings from the members of a JSON object. Raises InvalidObject."""
    values: dict[str, Any] = {}
    for attribute, name in JSON_NAMES.items():
        value = found.get(name)
        if value is None:
            continue
        if attribute in _FLAGS:
            value = as_flag(value, name)
        elif attribute.endswith("_metadata"):
            value = Metadata.parse(value, name)
        elif attribute.endswith("_rule_set"):
            value = RuleSet.parse(value, name)
        else:
            value = as_text(value, name)
        values[attribute] = value
    return Config(**values)


def encode_mode(subject: str | None, mode: Mode) -> bytes:
    return _with_subject(subject, {"mode": mode.value})


def decode_mode(key: Key, data: bytes) -> Mode:
    """Raises UnknownValue."""
    try:
        return Mode(orjson.loads(data)["mode"])
    except (ValueError, TypeError, KeyError) as error:
        raise UnknownValue(f"the mode of {key.subject} cannot be read: {error}") from None


def encode_subject_deletion(subject: str, version: int) -> bytes:
    return dumps({"subject": subject, "version": version})


def decode_subject_deletion(key: Key, data: bytes) -> int:
    """Return the version up to which all are deleted. Raises UnknownValue."""
    try:
        return _number(orjson.loads(data), "version")
    except (ValueError, TypeError, KeyError) as error:
        raise UnknownValue(f"the deletion of {key.subject} cannot be read: {error}") from None


def encode_subject_clearing(subject: str | None) -> bytes:
    return _with_subject(subject, {})


def encode_max_ids(max_ids: Mapping[str, int]) -> bytes:
    return dumps({"maxIds": dict(max_ids)})


def decode_max_ids(data: bytes) -> dict[str, int]:
    """Return the last ids by context. Raises UnknownValue."""
    try:
        return {str(context): int(last) for context, last in (orjson.loads(data).get("maxIds") or {}).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise UnknownValue(f"the last ids cannot be read: {error}") from None


def context_record(context: str) -> tuple[Key, bytes]:
    return Key(KeyType.CONTEXT, context=context), dumps({"tenant": TENANT, "context": context})
