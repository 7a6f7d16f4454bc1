"""A schema registry whose responses never change."""

from __future__ import annotations

from broker_registry.client import RegistryClient, Schema, Version
from broker_registry.client_settings import settings_of
from broker_registry.console.session import SchemaSession
from broker_registry.console.views import (
    Referrer,
    Subject,
    Subjects,
    SubjectVersions,
    VersionRow,
    VersionText,
)
from broker_registry.differences import pretty
from broker_registry.schema_types.base import Reference
from tests.admin_tui.frozen import FrozenFeeds

SUBJECT = "orders-value"
_TEXT = (
    '{"type":"record","name":"Order","namespace":"com.example","doc":"An order. \\u001b[2J größe","fields":[{"name":'
    '"id","type":"long"},{"name":"customer","type":"Customer"},{"name":"state","type":{"type":"enum","name":"State",'
    '"symbols":["NEW","PAID","SHIPPED"],"default":"NEW"}}]}'
)
_REFERENCES = (Reference("com.example.Customer", "customers-value", 3),)
_SUBJECTS = Subjects(
    (
        Subject("clicks-value", "PROTOBUF", 1, 0, 1, 9, 0, "BACKWARD", "READWRITE"),
        Subject("customers-value", "AVRO", 3, 1, 4, 7, 0, "FULL_TRANSITIVE", "READONLY"),
        Subject("old-value", "JSON", 0, 2, 2, 4, 0, "NONE", "READWRITE"),
        Subject(SUBJECT, "AVRO", 12, 0, 12, 1_234, 1, "BACKWARD", "READWRITE"),
        Subject(":.staging:orders-value", "AVRO", 1, 0, 1, 1, 0, None, None),
    ),
    left_out=False,
)
_VERSIONS = SubjectVersions(
    SUBJECT,
    tuple(
        VersionRow(SUBJECT, number, number * 100 + 34, None, "AVRO", 1, 400 + number, number == 2)
        for number in range(12, 0, -1)
    ),
    "BACKWARD",
    "READWRITE",
)
_VERSION = VersionText(
    Version(SUBJECT, 12, 1_234, None, Schema("AVRO", _TEXT, _REFERENCES)),
    tuple(pretty("AVRO", _TEXT).splitlines()),
    _REFERENCES,
    (Referrer(77, "invoices-value", 2),),
    0,
)


class FrozenSchemas(SchemaSession):
    """A registry that never changes."""

    def __init__(self) -> None:
        super().__init__(RegistryClient(settings_of("http://registry-1:8081")))
        self._feeds = FrozenFeeds(
            {"subjects": _SUBJECTS, ("versions", SUBJECT): _VERSIONS, ("version", SUBJECT, 12): _VERSION}
        )
