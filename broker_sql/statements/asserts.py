"""ASSERT: checks of topics, schemas, sources and rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from broker_sql.statements.base import NO_PROPERTIES, Name, Properties, Statement
from broker_sql.statements.queries import Duration
from broker_sql.statements.sources import Element


@dataclass(frozen=True, kw_only=True)
class AssertTopic(Statement):
    """ASSERT [NOT EXISTS] TOPIC name [WITH (...)] [TIMEOUT n unit]."""

    topic: Name
    exists: bool = True
    properties: Properties = NO_PROPERTIES
    timeout: Duration | None = None


@dataclass(frozen=True, kw_only=True)
class AssertSchema(Statement):
    """ASSERT [NOT EXISTS] SCHEMA [SUBJECT name] [ID n] [TIMEOUT n unit]: at least one of subject and id."""

    subject: Name | None = None
    id: int | None = None
    exists: bool = True
    timeout: Duration | None = None


@dataclass(frozen=True, kw_only=True)
class AssertStream(Statement):
    """ASSERT STREAM name (elements) WITH (...): of test scripts."""

    name: Name
    elements: tuple[Element, ...] = ()
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, kw_only=True)
class AssertTable(Statement):
    """ASSERT TABLE name (elements) WITH (...): of test scripts."""

    name: Name
    elements: tuple[Element, ...] = ()
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, kw_only=True)
class AssertValues(Statement):
    """ASSERT VALUES source (columns) VALUES (values): of test scripts."""

    source: Name
    columns: tuple[Name, ...] = ()
    values: tuple[exp.Expr, ...]


@dataclass(frozen=True, kw_only=True)
class AssertTombstone(Statement):
    """ASSERT NULL VALUES source (columns) KEY (values): of test scripts."""

    source: Name
    columns: tuple[Name, ...] = ()
    values: tuple[exp.Expr, ...]
