"""All that a statement is planned with, besides the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sql.functions import FunctionRegistry

# Names of settings that plans depend on.
KEY_FORMAT = "ksql.persistence.default.format.key"
VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAP_SINGLE_VALUES = "ksql.persistence.wrap.single.values"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
SINK_PARTITIONS = "ksql.sink.partitions"
SINK_REPLICAS = "ksql.sink.replicas"
SERVICE_ID = "ksql.service.id"
THROW_ON_INVALID_TIMESTAMP = "ksql.timestamp.throw.on.invalid"
ROW_PLACES = "ksql.rowpartition.rowoffset.enabled"
PYTHON_FUNCTIONS = "ksql.functions.python.enabled"
INSERT_INTO_VALUES = "ksql.insert.into.values.enabled"


@dataclass(frozen=True)
class TopicInfo:
    """A topic that exists. `replicas` None: not known."""

    partitions: int
    replicas: int | None = None


def _drop(message: str, node: object) -> None:
    """Errors of records that nobody wants to see."""


@dataclass(frozen=True)
class Settings:
    """`properties` have ksqlDB's names. `registry` is a client of the schema registry; None: there is none.

    `topics` are those that exist, or None if that is not checked. `log` is called with the text and the expression of
    each error that a record causes (ksqlDB's processing log).
    """

    functions: FunctionRegistry
    properties: Mapping[str, Any] = field(default_factory=dict)
    registry: Any = None
    topics: Mapping[str, TopicInfo] | None = None
    log: Callable[[str, Any], None] = _drop

    def text(self, name: str, default: str = "") -> str:
        found = self.properties.get(name)
        return default if found is None else str(found)

    def is_on(self, name: str, default: bool = False) -> bool:
        found = self.text(name)
        return default if not found else found.strip().lower() == "true"
