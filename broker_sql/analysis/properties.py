"""The properties of WITH: which there are, and what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_sql.analysis.settings import KEY_FORMAT, VALUE_FORMAT, WRAP_SINGLE_VALUES, Settings
from broker_sql.catalog import Format, KeyWindow, TimestampColumn, nearest
from broker_sql.errors import AnalysisError, Location
from broker_sql.formats.kinds import DELIMITER, FULL_SCHEMA_NAME, KINDS, NULLABLE, SCHEMA_ID
from broker_sql.statements import UNITS_MS, Properties, Property, WindowKind

FORMATS: Final = tuple(sorted(KINDS))
# Formats whose schemas are in the registry.
IN_REGISTRY: Final = frozenset(name for name, kind in KINDS.items() if kind.infers)

_KEY: Final = {
    "KEY_DELIMITER": DELIMITER,
    "KEY_SCHEMA_FULL_NAME": FULL_SCHEMA_NAME,
    "KEY_SCHEMA_ID": SCHEMA_ID,
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": NULLABLE,
}
_VALUE: Final = {
    "VALUE_DELIMITER": DELIMITER,
    "VALUE_AVRO_SCHEMA_FULL_NAME": FULL_SCHEMA_NAME,
    "VALUE_SCHEMA_FULL_NAME": FULL_SCHEMA_NAME,
    "VALUE_SCHEMA_ID": SCHEMA_ID,
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": NULLABLE,
}
_COMMON: Final = (
    "FORMAT",
    "KAFKA_TOPIC",
    "KEY_FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "RETENTION_MS",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "VALUE_FORMAT",
    "WRAP_SINGLE_VALUE",
    *_KEY,
    *_VALUE,
)
OF_CREATE: Final = (*_COMMON, "WINDOW_SIZE", "WINDOW_TYPE")
OF_CREATE_AS: Final = _COMMON
OF_INSERT: Final = ("QUERY_ID",)


@dataclass(frozen=True)
class SourceProperties:
    """The properties of WITH; None: not given."""

    topic: str | None = None
    key_format: Format | None = None
    value_format: Format | None = None
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    timestamp: TimestampColumn | None = None
    wrap_value: bool | None = None
    window: KeyWindow | None = None


def _place(found: Property | None) -> Location | None:
    return None if found is None else found.location


class _Reader:
    def __init__(self, properties: Properties, allowed: tuple[str, ...]) -> None:
        for each in properties:
            if each.name.upper() not in allowed:
                raise AnalysisError(f"{each.name} is no property here{nearest(each.name, allowed)}", each.location)
        self._properties = properties

    def find(self, name: str) -> Property | None:
        return self._properties.find(name)

    def wrong(self, found: Property, allowed: str) -> AnalysisError:
        return AnalysisError(f"{found.name.upper()} is {found.value!r}; {allowed} is expected", found.location)

    def text(self, name: str) -> str | None:
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found.value, str):
            raise self.wrong(found, "a text in quotes")
        return found.value

    def whole(self, name: str, least: int = 1) -> int | None:
        found = self.find(name)
        if found is None:
            return None
        value = found.value
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(found, f"a whole number of at least {least}")
        return value

    def truth(self, name: str) -> bool | None:
        found = self.find(name)
        if found is None:
            return None
        value = found.value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            value = value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise self.wrong(found, "true or false")
        return value

    def format(self, name: str) -> str | None:
        found, text = self.find(name), self.text(name)
        if found is None or text is None:
            return None
        if text.upper() not in FORMATS:
            known = ", ".join(FORMATS)
            raise AnalysisError(
                f"{found.name.upper()} is {text!r}; {known} are the formats{nearest(text, FORMATS)}", found.location
            )
        return text.upper()

    def delimiter(self, found: Property) -> str:
        value = str(found.value)
        if value in ("SPACE", "TAB"):
            return value
        if len(value) != 1 or value.isspace():
            raise self.wrong(found, "one character, TAB or SPACE")
        return value

    def settings(self, names: Mapping[str, str]) -> dict[str, tuple[str, Property]]:
        """The settings of a format that are given, each with its property."""
        found = {}
        for name, setting in names.items():
            each = self.find(name)
            if each is None:
                continue
            if setting == DELIMITER:
                value = self.delimiter(each)
            elif setting == SCHEMA_ID:
                value = str(self.whole(name, 0))
            else:
                value = str(self.text(name))
            if not value.strip() and setting != DELIMITER:
                raise self.wrong(each, "a name")
            if setting == NULLABLE and value.lower() not in ("optional", "wrapper"):
                raise self.wrong(each, "OPTIONAL or WRAPPER")
            found[setting] = value.lower() if setting == NULLABLE else value, each
        return found


def read(
    properties: Properties,
    allowed: tuple[str, ...],
    settings: Settings,
    *,
    key: Format | None = None,
    value: Format | None = None,
) -> SourceProperties:
    """`key` and `value` are the formats that are inherited from the source of a query; None: the settings' formats.

    Raises AnalysisError: a property is not known, or its value is not allowed.
    """
    reader = _Reader(properties, allowed)
    both, key_name, value_name = (reader.format(each) for each in ("FORMAT", "KEY_FORMAT", "VALUE_FORMAT"))
    for name, found in (("KEY_FORMAT", key_name), ("VALUE_FORMAT", value_name)):
        given = reader.find(name)
        if both is not None and found is not None and given is not None:
            raise AnalysisError(
                f"FORMAT is given too, which is that of key and value: leave one out: {name}", given.location
            )
    is_create_as = key is not None or value is not None
    timestamp, timestamp_format = reader.text("TIMESTAMP"), reader.text("TIMESTAMP_FORMAT")
    if timestamp is None and timestamp_format is not None:
        given = reader.find("TIMESTAMP_FORMAT")
        raise AnalysisError("TIMESTAMP_FORMAT needs TIMESTAMP, the name of a column", _place(given))
    default_key = settings.text(KEY_FORMAT, "KAFKA").upper() if not is_create_as else None
    default_value = settings.text(VALUE_FORMAT).upper() if not is_create_as else None
    return SourceProperties(
        topic=reader.text("KAFKA_TOPIC"),
        key_format=_format(reader, both or key_name, default_key, key, _KEY),
        value_format=_format(reader, both or value_name, default_value, value, _VALUE),
        partitions=reader.whole("PARTITIONS"),
        replicas=reader.whole("REPLICAS", -1),
        retention_ms=reader.whole("RETENTION_MS", -1),
        timestamp=None if timestamp is None else TimestampColumn(_column(timestamp), timestamp_format),
        wrap_value=reader.truth("WRAP_SINGLE_VALUE"),
        window=_window(reader),
    )


def _column(text: str) -> str:
    """The name of a column as an identifier of SQL says it: upper case unless it is in quotes."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.upper()


def _format(
    reader: _Reader, given: str | None, default: str | None, inherited: Format | None, names: Mapping[str, str]
) -> Format | None:
    name = given or (inherited.name if inherited is not None else default)
    found = reader.settings(names)
    if not name:
        return None
    if name not in FORMATS:
        raise AnalysisError(f"the default format is {name!r}; {', '.join(FORMATS)} are the formats")
    kind = KINDS[name]
    for setting, (_, given_as) in found.items():
        if setting not in kind.properties:
            raise AnalysisError(f"{given_as.name.upper()} is no setting of format {name}", given_as.location)
    kept: dict[str, Any] = {}
    if inherited is not None and inherited.name == name:
        kept = {each: text for each, text in inherited.properties.items() if each in kind.inherited}
    return Format(name, kept | {setting: text for setting, (text, _) in found.items()})


def _window(reader: _Reader) -> KeyWindow | None:
    kind_text, size_text = reader.text("WINDOW_TYPE"), reader.text("WINDOW_SIZE")
    kind_given, size_given = reader.find("WINDOW_TYPE"), reader.find("WINDOW_SIZE")
    if kind_text is None or kind_given is None:
        if size_given is not None:
            raise AnalysisError("WINDOW_SIZE needs WINDOW_TYPE", size_given.location)
        return None
    if kind_text.upper() not in WindowKind.__members__:
        raise reader.wrong(kind_given, "TUMBLING, HOPPING or SESSION")
    kind = WindowKind[kind_text.upper()]
    if kind is WindowKind.SESSION:
        if size_given is not None:
            raise AnalysisError(
                "WINDOW_SIZE is not allowed for SESSION windows, whose sizes differ", size_given.location
            )
        return KeyWindow(kind)
    if size_text is None or size_given is None:
        raise AnalysisError(f"windows of type {kind.value} need WINDOW_SIZE", kind_given.location)
    match = re.fullmatch(r"\s*([0-9]+)\s+([A-Za-z]+)\s*", size_text)
    unit = match[2].upper() if match else ""
    unit = unit if unit in UNITS_MS else unit.removesuffix("S")
    if match is None or unit not in UNITS_MS:
        raise reader.wrong(size_given, f"a number and a unit ({', '.join(UNITS_MS)}, with S or without)")
    return KeyWindow(kind, int(match[1]) * UNITS_MS[unit])


def wraps_value(
    wanted: bool | None, value_format: Format, columns: int, settings: Settings, properties: Properties
) -> bool | None:
    """How one value column is written: as a record (True), or bare (False). None: the format says it, or there are
    several columns. Raises AnalysisError: WRAP_SINGLE_VALUE does not fit.
    """
    name = value_format.name
    kind = KINDS[name]
    both = kind.wraps and kind.unwraps
    given = properties.find("WRAP_SINGLE_VALUE")
    if wanted is not None and given is not None:
        if (wanted and not kind.wraps) or (not wanted and not kind.unwraps):
            raise AnalysisError(
                f"WRAP_SINGLE_VALUE={str(wanted).lower()} is not possible for format {name}", given.location
            )
        if columns != 1:
            raise AnalysisError(f"WRAP_SINGLE_VALUE is for values of one column; there are {columns}", given.location)
        return wanted if both else None
    if columns != 1 or not both:
        return None
    if settings.text(WRAP_SINGLE_VALUES):
        return settings.is_on(WRAP_SINGLE_VALUES)
    return None


def unwraps_key(key_format: Format, columns: int) -> bool:
    """One key column is bare if the format allows it."""
    return columns == 1 and KINDS[key_format.name].unwraps_key


def query_id(properties: Properties) -> str | None:
    """The QUERY_ID of INSERT INTO. Raises AnalysisError: it is no name."""
    found = _Reader(properties, OF_INSERT).text("QUERY_ID")
    if found is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", found):
        given = properties.find("QUERY_ID")
        raise AnalysisError(f"QUERY_ID is {found!r}; letters, digits, _ and - are allowed", _place(given))
    return found.upper() if found is not None else None
