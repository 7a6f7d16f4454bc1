"""Files that a schema may import without a reference, as in Confluent's registry: google/protobuf/*, google/type/* and
confluent/*. The first come from the library, the others stand here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from google.protobuf import descriptor_pb2

from broker_registry.schema_types.protobuf import ast, types
from broker_registry.schema_types.protobuf.from_descriptor import file_of
from broker_registry.schema_types.protobuf.parser import parse_file

_FROM_LIBRARY: Final = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
    *("timestamp", "type", "wrappers"),
)


def _enum(name: str, values: str) -> str:
    return f"enum {name} {{ " + " ".join(f"{each} = {tag};" for tag, each in enumerate(values.split())) + " }"


def _message(name: str, kind: str, fields: str) -> str:
    """Return a message whose fields have one type and numbers from 1."""
    numbered = (f"{kind} {each} = {tag};" for tag, each in enumerate(fields.split(), start=1))
    return f"message {name} {{ " + " ".join(numbered) + " }"


_GOOGLE_TYPES: Final = {
    "calendar_period": _enum(
        "CalendarPeriod", "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"
    ),
    "color": 'import "google/protobuf/wrappers.proto"; message Color { float red = 1; float green = 2; float blue = 3;'
    " google.protobuf.FloatValue alpha = 4; }",
    "date": _message("Date", "int32", "year month day"),
    "datetime": 'import "google/protobuf/duration.proto"; message DateTime { int32 year = 1; int32 month = 2;'
    " int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7;"
    " oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }"
    + _message("TimeZone", "string", "id version"),
    "dayofweek": _enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"),
    "decimal": _message("Decimal", "string", "value"),
    "expr": _message("Expr", "string", "expression title description location"),
    "fraction": _message("Fraction", "int64", "numerator denominator"),
    "interval": 'import "google/protobuf/timestamp.proto";'
    + _message("Interval", "google.protobuf.Timestamp", "start_time end_time"),
    "latlng": _message("LatLng", "double", "latitude longitude"),
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": _enum(
        "Month",
        "MONTH_UNSPECIFIED JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
    ),
    "phone_number": "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; }"
    " oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }",
    "postal_address": "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;"
    " string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7;"
    " string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10;"
    " string organization = 11; }",
    "quaternion": _message("Quaternion", "double", "x y z w"),
    "timeofday": _message("TimeOfDay", "int32", "hours minutes seconds nanos"),
}
_META: Final = """
syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
option java_package = "io.confluent.protobuf"; option java_outer_classname = "MetaProto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_CONFLUENT_TYPES: Final = {
    "decimal": "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "variant": "message Variant { bytes metadata = 1; bytes value = 2; }",
}


@cache
def files() -> Mapping[str, ast.File]:
    """Return the files by the path that imports name. They are read once for each process."""
    result: dict[str, ast.File] = {"confluent/meta.proto": parse_file(_META)}
    for name in _FROM_LIBRARY:
        descriptor = import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        proto = descriptor_pb2.FileDescriptorProto()
        descriptor.CopyToProto(proto)
        result[f"google/protobuf/{name}.proto"] = file_of(proto)
    for package, texts in (("google.type", _GOOGLE_TYPES), ("confluent.type", _CONFLUENT_TYPES)):
        for name, text in texts.items():
            path = f"{package.replace('.', '/')}/{name}.proto"
            result[path] = parse_file(f'syntax = "proto3"; package {package}; {text}')
    return MappingProxyType(result)


@cache
def _all_types() -> types.Types:
    return types.collect(files(), types.EMPTY)


def types_without(replaced: Iterable[str]) -> types.Types:
    """Return the types of the bundled files, but of those that a schema replaces by references of the same name."""
    hidden = files().keys() & set(replaced)
    if not hidden:
        return _all_types()
    return types.collect({path: each for path, each in files().items() if path not in hidden}, types.EMPTY)
