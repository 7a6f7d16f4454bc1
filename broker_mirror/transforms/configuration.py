"""The settings of the transforms of a flow, as Kafka Connect reads them: `transforms`, `predicates` and their families.

    SOURCE->TARGET.transforms = keep, mark
    SOURCE->TARGET.transforms.keep.type = org.apache.kafka.connect.transforms.Filter
    SOURCE->TARGET.transforms.keep.predicate = empty
    SOURCE->TARGET.predicates = empty
    SOURCE->TARGET.predicates.empty.type = org.apache.kafka.connect.transforms.predicates.RecordIsTombstone

A file of settings has at most 1 MiB, which bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from broker_cy.core.config_def.definitions import Definition
from broker_cy.core.config_def.types import ConfigError, parse
from broker_cy.core.configs import ConfigType
from broker_mirror.filters import pattern_of
from broker_mirror.transforms.chain import (
    Chain,
    Predicate,
    Stage,
    Transform,
    drop_headers,
    has_header_key,
    insert_header,
    leave_out,
    record_is_tombstone,
    topic_name_matches,
)
from broker_mirror.transforms.literals import parsed

TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
FAMILIES: Final = (f"{TRANSFORMS}.", f"{PREDICATES}.")
"""MirrorMaker 2 reads the settings with these prefixes for one flow only, not at the top of the file."""
SIMPLE_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_PACKAGE: Final = "org.apache.kafka.connect.transforms."
_TYPE, _PREDICATE, _NEGATE, _VERSION = "type", "predicate", "negate", "plugin.version"
_OF_FIELDS: Final = "works on fields, and records of a mirror have bytes"
_OF_TOPIC: Final = (
    "changes the topic, and offsets of groups would have no translation: replication.policy.class and"
    " replication.policy.separator name remote topics"
)
_OTHERS: Final = {
    **dict.fromkeys(
        (
            "Cast",
            "ExtractField",
            "Flatten",
            "HeaderFrom",
            "InsertField",
            "MaskField",
            "ReplaceField",
            "TimestampConverter",
            "ValueToKey",
        ),
        _OF_FIELDS,
    ),
    "HoistField": "makes a structure, and ByteArrayConverter writes only bytes",
    "SetSchemaMetadata": "names a schema, and records of a mirror have none",
    "RegexRouter": _OF_TOPIC,
    "TimestampRouter": _OF_TOPIC,
}
"""The other transforms of Kafka, with the reason for which a mirror does not have them."""


class _Class(NamedTuple):
    """A class with its settings: `make` gets the full name of the flow's settings of it, and their values."""

    settings: Mapping[str, Definition]
    make: Callable[[str, Mapping[str, Any]], Any]


def _definition(name: str, kind: ConfigType, valid: str) -> Definition:
    return Definition.from_row({"name": name, "type": kind.name, "default": "(required)", "valid": valid})


def _class(make: Callable[[str, Mapping[str, Any]], Any], **settings: tuple[ConfigType, str]) -> _Class:
    """`settings` have _ for dots."""
    names = {name.replace("_", "."): row for name, row in settings.items()}
    return _Class({name: _definition(name, *row) for name, row in names.items()}, make)


_TEXT: Final = (ConfigType.STRING, "")
_WORD: Final = (ConfigType.STRING, "non-empty string")
_NAMES: Final = (ConfigType.LIST, "any non-empty value")


def _insert_header(_: str, values: Mapping[str, Any]) -> Transform:
    return insert_header(values["header"], parsed(values["value.literal"]))


def _topic_name_matches(prefix: str, values: Mapping[str, Any]) -> Predicate:
    pattern = pattern_of(f"{prefix}pattern", [values["pattern"]])
    assert pattern is not None
    return topic_name_matches(pattern)


_TRANSFORM_CLASSES: Final = {
    f"{_PACKAGE}InsertHeader": _class(_insert_header, header=_TEXT, value_literal=_TEXT),
    f"{_PACKAGE}DropHeaders": _class(lambda _, values: drop_headers(values["headers"]), headers=_NAMES),
    f"{_PACKAGE}Filter": _class(lambda _, __: leave_out),
}
_PREDICATE_CLASSES: Final = {
    f"{_PACKAGE}predicates.TopicNameMatches": _class(_topic_name_matches, pattern=_WORD),
    f"{_PACKAGE}predicates.HasHeaderKey": _class(lambda _, values: has_header_key(values["name"]), name=_WORD),
    f"{_PACKAGE}predicates.RecordIsTombstone": _class(lambda _, __: record_is_tombstone),
}


def chain_of(properties: Mapping[str, str], prefix: str, header_converter: str) -> Chain | None:
    """Return the transforms of a flow; None if it passes records on as they are. `properties` are those of its
    connectors, `prefix` is that of their names in the file. Raises ConfigError, which names the setting.
    """
    as_text = header_converter == SIMPLE_CONVERTER
    predicates = {
        alias: _made(_Family(properties, prefix, PREDICATES, alias), _PREDICATE_CLASSES)
        for alias in _aliases(properties, prefix, PREDICATES)
    }
    stages = []
    for alias in _aliases(properties, prefix, TRANSFORMS):
        family = _Family(properties, prefix, TRANSFORMS, alias)
        transform = _made(family, _TRANSFORM_CLASSES)
        if not as_text:
            _check_literal(family)
        stages.append(_stage(family, transform, predicates))
    return Chain(tuple(stages), as_text) if stages or as_text else None


def cautions_of(properties: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return warnings about settings of transforms and predicates that no list names, as in Kafka, and about versions
    of plug-ins.
    """
    found = []
    for kind in (TRANSFORMS, PREDICATES):
        listed = tuple(f"{kind}.{alias}." for alias in _aliases(properties, prefix, kind))
        for name in properties:
            if name.startswith(f"{kind}.") and not name.startswith(listed):
                found.append(f"{prefix}{name} has no effect: {prefix}{kind} does not list it")
            elif name.startswith(listed) and name.endswith(f".{_VERSION}"):
                found.append(f"{prefix}{name} has no effect")
    return tuple(found)


def refuse(properties: Mapping[str, str], prefix: str, header_converter: str) -> None:
    """Raise ConfigError if the records of a link flow would be changed."""
    given = [name for name in (TRANSFORMS, PREDICATES) if _aliases(properties, prefix, name)]
    if header_converter == SIMPLE_CONVERTER:
        given.append("header.converter")
    for name in given:
        reason = "link flows keep the bytes of their source"
        raise ConfigError(f"{prefix}{name} needs {prefix}brokercy.flow=copy: {reason}", f"{prefix}{name}")


def _aliases(properties: Mapping[str, str], prefix: str, kind: str) -> tuple[str, ...]:
    name = f"{prefix}{kind}"
    found: tuple[str, ...] = parse(name, properties.get(kind, ""), ConfigType.LIST)
    twice = [each for index, each in enumerate(found) if each in found[:index]]
    if twice:
        raise ConfigError(f"{name}={','.join(found)} names {twice[0]} twice; each name is allowed once", name)
    return found


class _Family:
    """The settings of one transform or predicate. `prefix` is that of their full names."""

    def __init__(self, properties: Mapping[str, str], prefix: str, kind: str, alias: str) -> None:
        inner = f"{kind}.{alias}."
        # The alias a.b has its own settings, although they begin as those of a.
        others = [f"{kind}.{each}." for each in _aliases(properties, prefix, kind) if each.startswith(f"{alias}.")]
        self.kind, self.of_flow, self.prefix = kind, prefix, f"{prefix}{inner}"
        self.given = {
            name.removeprefix(inner): text
            for name, text in properties.items()
            if name.startswith(inner) and not name.startswith(tuple(others))
        }

    def required(self, name: str) -> str:
        """Return the text of a setting. Raises ConfigError if it is not set."""
        if name not in self.given:
            raise self.error(name, f"{self.prefix}{name} is not set")
        return self.given[name]

    def error(self, name: str, text: str) -> ConfigError:
        return ConfigError(text, f"{self.prefix}{name}")


def _made(family: _Family, classes: Mapping[str, _Class]) -> Any:
    """Return the transform or predicate of a family. Raises ConfigError."""
    name = family.required(_TYPE).strip()
    found = classes.get(name)
    if found is None:
        text = f"{family.prefix}{_TYPE}={name} {_reason(name, family.kind)}; allowed: {', '.join(classes)}"
        raise family.error(_TYPE, text)
    allowed = [*found.settings, _TYPE, _VERSION, *((_PREDICATE, _NEGATE) if family.kind == TRANSFORMS else ())]
    for each in family.given:
        if each not in allowed:
            own = ", ".join(allowed)
            raise family.error(each, f"{family.prefix}{each} is no setting of {name}; allowed: {own}")
    values = {}
    for each, definition in found.settings.items():
        full = f"{family.prefix}{each}"
        values[each] = replace(definition, name=full).parse(family.required(each))
    return found.make(family.prefix, values)


def _reason(name: str, kind: str) -> str:
    if kind == TRANSFORMS and name.startswith(_PACKAGE):
        own = name.removeprefix(_PACKAGE).partition("$")[0]
        if own in _OTHERS:
            return f"is not possible here, because it {_OTHERS[own]}"
    return "is a class in Java, which cannot run here"


def _check_literal(family: _Family) -> None:
    """Refuse a literal that the header converter does not write. Raises ConfigError."""
    name = "value.literal"
    if name in family.given and parsed(str(parse(name, family.given[name], ConfigType.STRING))) is not None:
        raise family.error(
            name,
            f"{family.prefix}{name}={family.given[name]} is no bytes, and ByteArrayConverter writes nothing else: the"
            f" task of MirrorMaker 2 fails at its first record; allowed: null, or"
            f" {family.of_flow}header.converter={SIMPLE_CONVERTER}",
        )


def _stage(family: _Family, transform: Transform, predicates: Mapping[str, Predicate]) -> Stage:
    negate = family.given.get(_NEGATE)
    negated = negate is not None and parse(f"{family.prefix}{_NEGATE}", negate, ConfigType.BOOLEAN)
    if _PREDICATE not in family.given:
        if negate is not None:
            raise family.error(_NEGATE, f"{family.prefix}{_NEGATE} needs {family.prefix}{_PREDICATE}")
        return Stage(transform)
    alias = family.given[_PREDICATE].strip()
    if alias not in predicates:
        known = ", ".join(predicates) or "none"
        text = f"{family.prefix}{_PREDICATE}={alias} is not in {family.of_flow}{PREDICATES}; allowed: {known}"
        raise family.error(_PREDICATE, text)
    return Stage(transform, predicates[alias], bool(negated))
