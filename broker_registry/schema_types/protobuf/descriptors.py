"""Classes of descriptors that know Confluent's options `confluent.file_meta` and so on.

They live in a pool of their own, so that extensions which another library registers in the default pool make no
difference. `params` of Meta is a list of entries here, which is the same on the wire as a map: the canonical text has
them in their order, which a map of the library does not keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

META_NUMBER: Final = 1088
# Options of Protobuf in the order in which Confluent's text has those of a descriptor.
FILE_OPTIONS: Final = (
    *("java_package", "java_outer_classname", "java_multiple_files", "java_generate_equals_and_hash"),
    *("java_string_check_utf8", "optimize_for", "go_package", "cc_generic_services", "java_generic_services"),
    *("py_generic_services", "deprecated", "cc_enable_arenas", "objc_class_prefix", "csharp_namespace"),
    *("swift_prefix", "php_class_prefix", "php_namespace", "php_metadata_namespace", "ruby_package", "features"),
)
MESSAGE_OPTIONS: Final = ("no_standard_descriptor_accessor", "deprecated", "map_entry", "features")
FIELD_OPTIONS: Final = (
    *("ctype", "packed", "jstype", "deprecated", "debug_redact", "retention", "targets", "edition_defaults"),
    *("features", "feature_support"),
)
ONEOF_OPTIONS: Final = ("features",)
RANGE_OPTIONS: Final = ("declaration", "features", "verification")
ENUM_OPTIONS: Final = ("allow_alias", "deprecated", "features")
ENUM_VALUE_OPTIONS: Final = ("deprecated", "debug_redact", "features", "feature_support")
SERVICE_OPTIONS: Final = ("deprecated", "features")
METHOD_OPTIONS: Final = ("deprecated", "idempotency_level", "features")

_FIELDS: Final = {
    "Rule": (("name", 1), ("doc", 2), ("expr", 3), ("sql", 4)),
    "Entry": (("key", 1), ("value", 2)),
    "Meta": (("doc", 1),),
}
_EXTENDED: Final = {
    "file_meta": "FileOptions",
    "message_meta": "MessageOptions",
    "field_meta": "FieldOptions",
    "enum_meta": "EnumOptions",
    "enum_value_meta": "EnumValueOptions",
}


@dataclass(frozen=True)
class Classes:
    """`new_file` makes a FileDescriptorProto, `new_meta` a Meta; `metas` has the extension fields by name, such as
    `file_meta`.
    """

    pool: descriptor_pool.DescriptorPool
    new_file: Callable[[], descriptor_pb2.FileDescriptorProto]
    new_meta: Callable[[], Any]
    metas: dict[str, Any]


@cache
def classes() -> Classes:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_meta_file().SerializeToString())
    file = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    return Classes(
        pool,
        cast("Callable[[], descriptor_pb2.FileDescriptorProto]", file),
        message_factory.GetMessageClass(pool.FindMessageTypeByName("confluent.Meta")),
        {name: pool.FindExtensionByName(f"confluent.{name}") for name in _EXTENDED},
    )


def _meta_file() -> descriptor_pb2.FileDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="meta", package="confluent", syntax="proto3", dependency=["google/protobuf/descriptor.proto"]
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, number in fields:
            message.field.add(name=field_name, number=number, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
    meta = file.message_type[-1]
    many, of_type = field.LABEL_REPEATED, field.TYPE_MESSAGE
    meta.field.add(name="params", number=2, label=many, type=of_type, type_name=".confluent.Entry")
    meta.field.add(name="tags", number=3, label=many, type=field.TYPE_STRING)
    meta.field.add(name="rules", number=4, label=many, type=of_type, type_name=".confluent.Rule")
    for name, extended in _EXTENDED.items():
        file.extension.add(
            name=name,
            number=META_NUMBER,
            label=field.LABEL_OPTIONAL,
            type=of_type,
            type_name=".confluent.Meta",
            extendee=f".google.protobuf.{extended}",
        )
    return file
