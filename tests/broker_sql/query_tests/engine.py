"""The engine of a case: statements change its catalog, queries become topologies, topics are lists of records."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from broker_registry.schema_types.base import Kind, Reference
from broker_sql import dialect
from broker_sql.analysis import serdes
from broker_sql.analysis.settings import Settings, TopicInfo
from broker_sql.catalog import Catalog, SourceInfo
from broker_sql.errors import SqlError
from broker_sql.formats.inference import register
from broker_sql.functions import Environment, FunctionRegistry, standard
from broker_sql.planner import Planned, plan
from broker_sql.server.inserting import values_record
from broker_sql.statements import CreateAs, CreateSource, CreateType, InsertValues, Statement
from broker_streams.registry.opening import drop_mock_registry, open_registry
from broker_streams.serdes.schemas.lookups import MemoryRegistry, SchemaRegistry, SchemaText
from tests.broker_sql.query_tests.cases import Case
from tests.broker_sql.query_tests.spec import Side
from tests.broker_sql.query_tests.udfs import with_test_functions

SERVICE_ID: Final = "some.ksql.service.id"
_SCOPE: Final = "query-tests"
URL: Final = f"mock://{_SCOPE}"
# A record: key, value, timestamp, headers.
Stored = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
_DEFAULT_PARTITIONS: Final = 4
# Schemas that others refer to take no id that a case may name.
_REFERENCES: Final = 100_000
_KINDS: Final = {"AVRO": Kind.AVRO, "JSON_SR": Kind.JSON, "JSON": Kind.JSON, "PROTOBUF": Kind.PROTOBUF}


class CaseRegistry:
    """The registry of a case, with the ids that the case chooses."""

    def __init__(self) -> None:
        drop_mock_registry(_SCOPE)
        found = open_registry({"application.id": "query-tests", "schema.registry.url": URL})
        assert isinstance(found, MemoryRegistry)
        self.memory = found

    def add(self, subject: str, kind: Kind, schema: Any, schema_id: int | None, references: Any = ()) -> None:
        text = schema if kind is Kind.PROTOBUF else json.dumps(schema, default=str)
        memory = self.memory
        known = tuple(_reference(each) for each in references or ())
        for each in references or ():
            self.add(
                each["name"], kind, each["schema"], _REFERENCES + len(self.memory.subjects), each.get("references")
            )
        given = SchemaText(kind, text, known)
        parsed = memory.parsed(given)
        canonical = given._replace(text=parsed.canonical)
        number = schema_id if schema_id is not None else memory._ids.get(canonical)
        if number is None:
            number = max((each for each in memory._by_id if each < _REFERENCES), default=0) + 1
        memory._by_id[number] = canonical, parsed
        memory._ids[canonical] = number
        versions = memory.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)


def _reference(given: Mapping[str, Any]) -> Reference:
    return Reference(given["name"], given["name"], 1)


class Engine:
    def __init__(self, case: Case, functions: FunctionRegistry | None = None) -> None:
        self.case = case
        self.catalog = Catalog()
        self.registry = CaseRegistry()
        # By id, in the order of their first statements.
        self.queries: dict[str, Planned] = {}
        self.topics: dict[str, list[Stored]] = {}
        self.partitions: dict[str, int] = {}
        self.errors: list[str] = []
        properties = {"ksql.service.id": SERVICE_ID, "ksql.schema.registry.url": URL, **case.properties}
        self.settings = Settings(
            functions or functions_of(case.properties),
            properties,
            registry=self.registry.memory,
            topics={},
            log=lambda text, node: self.errors.append(text),
        )
        self._declare()

    def _declare(self) -> None:
        for topic in self.case.topics:
            self.partitions[topic["name"]] = topic.get("partitions", 1)
        for text in self.case.statements:
            self._declare_of(text)
        for record in (*self.case.inputs, *self.case.outputs):
            self.partitions.setdefault(record.topic, _DEFAULT_PARTITIONS)
        self._register()

    def _register(self) -> None:
        """Schemas of topics get the ids that ksqlDB's harness gives them: by topics, in the order of Java's HashMap."""
        declared = {topic["name"]: topic for topic in self.case.topics}
        for topic in self.case.topics:
            self._register_declared(topic, with_ids=True)
        sources = self._declared_sources()
        names = [*declared, *sources, *(each.topic for each in (*self.case.inputs, *self.case.outputs))]
        for name in sorted(dict.fromkeys(names), key=_bucket):
            if name in declared:
                self._register_declared(declared[name], with_ids=False)
            for part, serde in zip(("key", "value"), sources.get(name, ()), strict=False):
                if f"{part}Schema" not in declared.get(name, {}):
                    register(self.registry.memory, serde, name, is_key=part == "key", only_first=True)

    def _register_declared(self, topic: Mapping[str, Any], *, with_ids: bool) -> None:
        for part in ("key", "value"):
            schema, schema_id = topic.get(f"{part}Schema"), topic.get(f"{part}SchemaId")
            if schema is not None and with_ids == (schema_id is not None):
                kind = _KINDS[(topic.get(f"{part}Format") or "AVRO").upper()]
                references = topic.get(f"{part}SchemaReferences")
                self.registry.add(f"{topic['name']}-{part}", kind, schema, schema_id, references)

    def _declared_sources(self) -> dict[str, tuple[Any, Any]]:
        """The serdes of keys and values by topics, of statements that declare their columns."""
        catalog = Catalog()
        settings = dataclasses.replace(self.settings, topics=None, registry=None)
        found: dict[str, tuple[Any, Any]] = {}
        for text in self.case.statements:
            try:
                for each in parsed(text):
                    if isinstance(each, CreateSource | CreateType):
                        planned = plan(each, catalog, settings)
                        catalog = catalog.apply_all(planned.changes)
                        if planned.sink is not None:
                            found[planned.sink.topic] = _serdes(planned.sink)
            except SqlError:
                # Columns of the registry, or an error that the case expects.
                continue
        return found

    def _declare_of(self, text: str) -> None:
        """Topics of streams and tables exist before statements are executed."""
        try:
            statements = parsed(text)
        except SqlError:
            return
        for each in statements:
            if isinstance(each, CreateSource):
                name, count = (each.properties.find(key) for key in ("KAFKA_TOPIC", "PARTITIONS"))
                if name is not None:
                    self.partitions.setdefault(str(name.value), _DEFAULT_PARTITIONS)
                    if count is not None:
                        self.partitions[str(name.value)] = int(str(count.value))

    def execute(self, statement: Statement) -> None:
        """Raises SqlError."""
        settings = dataclasses.replace(
            self.settings, topics={name: TopicInfo(count) for name, count in self.partitions.items()}
        )
        if isinstance(statement, InsertValues):
            self._insert(statement, settings)
            return
        planned = plan(statement, self.catalog, settings)
        if planned.already:
            return
        if planned.sink is not None and isinstance(statement, CreateSource | CreateAs):
            self._create_topic(planned.sink, settings, only_first=isinstance(statement, CreateSource))
        for change in planned.changes:
            self.catalog = self.catalog.apply(change)
        if planned.query_id is not None and planned.topology is not None:
            self.queries[planned.query_id] = planned

    def _create_topic(self, source: SourceInfo, settings: Settings, *, only_first: bool) -> None:
        self.partitions.setdefault(source.topic, source.partitions or _DEFAULT_PARTITIONS)
        for part, serde in zip(("key", "value"), _serdes(source), strict=True):
            register(self.registry.memory, serde, source.topic, is_key=part == "key", only_first=only_first)

    def _insert(self, statement: InsertValues, settings: Settings) -> None:
        topic, record = values_record(statement, self.catalog, settings)
        self.topics.setdefault(topic, []).append((record.key, record.value, record.timestamp, tuple(record.headers)))

    def source_of(self, topic: str) -> SourceInfo | None:
        return next((each for each in self.catalog.sources.values() if each.topic == topic), None)

    def sides(self, source: SourceInfo, registry: SchemaRegistry | None = None) -> tuple[Side, Side]:
        """The key and the value of a topic, for values of the case, by this registry, else the one of the case."""
        is_exact = str(self.case.properties.get("use.exact.numeric.comparison", "true")).lower() == "true"
        memory = registry or self.registry.memory
        return (
            Side(source.key_format.name, source.key_format.properties, source.schema.key, True, memory, source.topic),
            Side(
                source.value_format.name,
                source.value_format.properties,
                source.schema.value,
                False,
                memory,
                source.topic,
                is_exact,
            ),
        )


def _serdes(source: SourceInfo) -> tuple[Any, Any]:
    """The serdes of keys, without windows, and of values."""
    key = serdes.source_key_serde(source)
    return getattr(key, "inner", key), serdes.source_value_serde(source)


def _bucket(text: str) -> int:
    """The place of a text in Java's HashMap with up to 12 entries."""
    value = 0
    for each in text:
        value = 31 * value + ord(each) & 0xFFFF_FFFF
    return (value ^ value >> 16) & 15


_FUNCTIONS: dict[tuple[tuple[str, str], ...], FunctionRegistry] = {}


def functions_of(properties: Mapping[str, Any]) -> FunctionRegistry:
    found = {name: str(value) for name, value in properties.items() if name.startswith("ksql.functions.")}
    place = tuple(sorted(found.items()))
    if place not in _FUNCTIONS:
        _FUNCTIONS[place] = with_test_functions(standard(Environment(settings=found)))
    return _FUNCTIONS[place]


def parsed(text: str) -> list[Statement]:
    return dialect.parse(text)
