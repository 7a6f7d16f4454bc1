"""Statements that only show: DESCRIBE, EXPLAIN, PRINT, SHOW (also written LIST)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from broker_sql.statements.base import Name, Statement


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE source [EXTENDED]."""

    source: Name
    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeStreams(Statement):
    """DESCRIBE STREAMS [EXTENDED]."""

    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeTables(Statement):
    """DESCRIBE TABLES [EXTENDED]."""

    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeFunction(Statement):
    """DESCRIBE FUNCTION name."""

    function: Name


@dataclass(frozen=True, kw_only=True)
class DescribeConnector(Statement):
    """DESCRIBE CONNECTOR name."""

    connector: Name


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN of a query that runs, or of a statement: one of the two is None."""

    query_id: Name | None = None
    statement: Statement | None = None


@dataclass(frozen=True, kw_only=True)
class Preview(Statement):
    """PREVIEW [n] of a query, CREATE ... AS SELECT or INSERT INTO ... SELECT: its rows for the last records.

    `records` of each partition are read; None: as many as the terminal chooses. ksqlDB does not have it."""

    statement: Statement
    records: int | None = None


@dataclass(frozen=True, kw_only=True)
class Print(Statement):
    """PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]: every `interval`-th record."""

    topic: Name
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class ListStreams(Statement):
    """SHOW STREAMS [EXTENDED]."""

    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class ListTables(Statement):
    """SHOW TABLES [EXTENDED]."""

    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class ListTopics(Statement):
    """SHOW [ALL] TOPICS [EXTENDED]: `all` also shows internal topics."""

    all: bool = False
    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class ListQueries(Statement):
    """SHOW QUERIES [EXTENDED]."""

    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class ListFunctions(Statement):
    """SHOW FUNCTIONS."""


@dataclass(frozen=True, kw_only=True)
class ListProperties(Statement):
    """SHOW PROPERTIES."""


@dataclass(frozen=True, kw_only=True)
class ListTypes(Statement):
    """SHOW TYPES."""


@dataclass(frozen=True, kw_only=True)
class ListVariables(Statement):
    """SHOW VARIABLES."""


class ConnectorKind(Enum):
    SOURCE = "SOURCE"
    SINK = "SINK"


@dataclass(frozen=True, kw_only=True)
class ListConnectors(Statement):
    """SHOW [SOURCE|SINK] CONNECTORS."""

    kind: ConnectorKind | None = None


@dataclass(frozen=True, kw_only=True)
class ListConnectorPlugins(Statement):
    """SHOW CONNECTOR PLUGINS."""
