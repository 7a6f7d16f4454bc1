"""Queries that run, properties, variables, scripts and connectors."""

from __future__ import annotations

from dataclasses import dataclass

from broker_sql.statements.base import Name, Properties, Statement
from broker_sql.statements.shows import ConnectorKind


@dataclass(frozen=True, kw_only=True)
class Terminate(Statement):
    """TERMINATE query. None: ALL."""

    query_id: Name | None = None


@dataclass(frozen=True, kw_only=True)
class Pause(Statement):
    """PAUSE query. None: ALL."""

    query_id: Name | None = None


@dataclass(frozen=True, kw_only=True)
class Resume(Statement):
    """RESUME query. None: ALL."""

    query_id: Name | None = None


@dataclass(frozen=True, kw_only=True)
class SetProperty(Statement):
    """SET 'name'='value': for the statements after it in the session."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class UnsetProperty(Statement):
    """UNSET 'name'."""

    name: str


@dataclass(frozen=True, kw_only=True)
class AlterSystem(Statement):
    """ALTER SYSTEM 'name'='value': for the server."""

    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Define(Statement):
    """DEFINE name = 'value'. Names of variables are compared without their case."""

    name: Name
    value: str


@dataclass(frozen=True, kw_only=True)
class Undefine(Statement):
    """UNDEFINE name."""

    name: Name


@dataclass(frozen=True, kw_only=True)
class RunScript(Statement):
    """RUN SCRIPT 'path'."""

    path: str


@dataclass(frozen=True, kw_only=True)
class CreateConnector(Statement):
    """CREATE SOURCE|SINK CONNECTOR [IF NOT EXISTS] name WITH (config)."""

    kind: ConnectorKind
    name: Name
    config: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropConnector(Statement):
    """DROP CONNECTOR [IF EXISTS] name."""

    name: Name
    if_exists: bool = False
