"""The state that the commands of the topic make: the catalog, the persistent queries, and what became of each command.

`apply` replays one command; it reads no clock and no network, so all servers come to the same state. A command that
cannot be replayed changes nothing: it is named in `set_aside`, and the commands behind it are replayed.

Bounds: STATUSES_MAX statuses are kept, the newest of each command id.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_sql.analysis.settings import PYTHON_FUNCTIONS, Settings, TopicInfo
from broker_sql.catalog import Catalog, PutQuery, RemoveQuery
from broker_sql.dialect import parse
from broker_sql.errors import SqlError, StatementError
from broker_sql.functions import FunctionRegistry
from broker_sql.planner import OnRow, Planned, plan
from broker_sql.server.commands import Action, Command, CommandId, Type
from broker_sql.server.entities import CommandStatus
from broker_sql.server.record_errors import QueryErrors
from broker_sql.statements import (
    AlterSource,
    AlterSystem,
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateTable,
    CreateType,
    DropFunction,
    DropSource,
    DropType,
    InsertInto,
    Pause,
    Resume,
    SourceKind,
    Statement,
    Terminate,
)
from broker_sql.types import quoted
from broker_streams.plan.topology import Topology

STATUSES_MAX: Final = 10_000
SUCCESS: Final = "SUCCESS"
ERROR: Final = "ERROR"
TERMINATED: Final = "TERMINATED"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record of the command topic that could not be replayed. `is_decided`: the settings of the server name it."""

    offset: int
    key: str
    reason: str
    is_decided: bool

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "key": self.key, "reason": self.reason, "decided": self.is_decided}


@dataclass(frozen=True)
class WantedQuery:
    """A persistent query that should run. `offset` is that of the command that made or replaced it; `properties` are
    the settings of the request.
    """

    id: str
    text: str
    topology: Topology
    planned: Planned
    properties: Mapping[str, Any]
    offset: int
    is_paused: bool = False


class Engine:
    """See the module. `properties` are settings of the server that plans depend on; `decided` are offsets of records
    that are left out by decision.
    """

    def __init__(
        self,
        functions: FunctionRegistry,
        properties: Mapping[str, Any],
        *,
        registry: Any = None,
        decided: Collection[int] = (),
    ) -> None:
        self.functions = functions
        self.catalog = Catalog()
        self.queries: dict[str, WantedQuery] = {}
        self.statuses: OrderedDict[str, CommandStatus] = OrderedDict()
        self.set_aside: list[SetAside] = []
        # Settings that ALTER SYSTEM changed.
        self.altered: dict[str, str] = {}
        self._properties = dict(properties)
        self._registry = registry
        # Errors of records: the query, the text, the expression. None: they go to the log of the server.
        self.on_error: Callable[[str, str, Any], None] | None = None
        self._decided = frozenset(decided)

    # ---- planning

    def settings(
        self,
        properties: Mapping[str, Any],
        *,
        original: Mapping[str, Any] | None = None,
        topics: Mapping[str, TopicInfo] | None = None,
    ) -> Settings:
        """Return the settings of a statement. `original` are those of the server that took it; None: this one."""
        server = self._properties if original is None else original
        return Settings(
            self.functions,
            # Neither a request nor a record of the topic may allow functions in Python.
            {**server, **self.altered, **properties, PYTHON_FUNCTIONS: self._properties.get(PYTHON_FUNCTIONS)},
            registry=self._registry,
            topics=topics,
            log=QueryErrors(self.on_error),
        )

    def planned(self, statement: Statement, settings: Settings, number: int, on_row: OnRow | None = None) -> Planned:
        """Plan a statement against the present catalog; `number` is a part of the id of its query. Raises SqlError."""
        found = plan(statement, replace(self.catalog, next_query=number), settings, on_row)
        if isinstance(settings.log, QueryErrors) and found.query_id is not None:
            settings.log.query_id = found.query_id
        return found

    @property
    def original(self) -> dict[str, str]:
        """The settings of this server that a command keeps, as texts."""
        return {name: str(value) for name, value in self._properties.items() if value is not None}

    # ---- replay

    def apply(self, command: Command) -> None:
        try:
            status = self._applied(command)
        except SqlError as error:
            self.take_bad(command.offset, str(command.id), str(error))
            status = CommandStatus(ERROR, str(error))
        except Exception as error:  # a defect of this program must not end the server
            _LOG.exception("offset %d of the command topic: %s", command.offset, command.statement)
            self.take_bad(command.offset, str(command.id), f"{type(error).__name__}: {error}")
            status = CommandStatus(ERROR, str(error))
        self._note(str(command.id), status)

    def take_bad(self, offset: int, key: str, reason: str) -> None:
        """Set a record aside."""
        found = SetAside(offset, key, reason, offset in self._decided)
        self.set_aside.append(found)
        if not found.is_decided:
            _LOG.error(
                "offset %d of the command topic (%s) is set aside: %s; brokercy.sql.set.aside=%d accepts that",
                offset,
                key,
                reason,
                offset,
            )

    def _note(self, name: str, status: CommandStatus) -> None:
        self.statuses[name] = status
        self.statuses.move_to_end(name)
        if len(self.statuses) > STATUSES_MAX:
            self.statuses.popitem(last=False)

    def _applied(self, command: Command) -> CommandStatus:
        """Raises SqlError: the command cannot be replayed."""
        statements = parse(command.statement)
        if len(statements) != 1:
            raise StatementError(f"the record has {len(statements)} statements; one is expected")
        statement = statements[0]
        match statement:
            case Terminate(query_id=query_id):
                self._terminate(query_id)
                return CommandStatus(SUCCESS, "Query terminated.")
            case Pause(query_id=query_id):
                self._pause(query_id, is_paused=True)
                return CommandStatus(SUCCESS, "Query paused.")
            case Resume(query_id=query_id):
                self._pause(query_id, is_paused=False)
                return CommandStatus(SUCCESS, "Query resumed.")
            case AlterSystem(name=name, value=value):
                self.altered[name] = value
                return CommandStatus(SUCCESS, f"System property {name} was set to {value}.")
        settings = self.settings(command.properties, original={**self._properties, **command.original})
        planned = self.planned(statement, settings, command.offset)
        self._change(planned, command)
        return CommandStatus(SUCCESS, message_of(statement, planned), planned.query_id)

    def _change(self, planned: Planned, command: Command) -> None:
        self.catalog = self.catalog.apply_all(planned.changes)
        for change in planned.changes:
            match change:
                case PutQuery(query):
                    assert planned.topology is not None
                    old = self.queries.get(query.id)
                    self.queries[query.id] = WantedQuery(
                        query.id,
                        command.statement,
                        planned.topology.plan,
                        planned,
                        dict(command.properties),
                        command.offset,
                        old is not None and old.is_paused,
                    )
                case RemoveQuery(query_id):
                    self._forget(query_id)

    def _terminate(self, query_id: str | None) -> None:
        for each in self.chosen(query_id):
            self.catalog = self.catalog.apply(RemoveQuery(each))
            self._forget(each)

    def _forget(self, query_id: str) -> None:
        found = self.queries.pop(query_id, None)
        if found is not None:
            for name, status in self.statuses.items():
                if status.query_id == query_id:
                    self.statuses[name] = CommandStatus(TERMINATED, "Query terminated")

    def _pause(self, query_id: str | None, *, is_paused: bool) -> None:
        for each in self.chosen(query_id):
            self.queries[each] = replace(self.queries[each], is_paused=is_paused)

    def chosen(self, query_id: str | None) -> list[str]:
        """Return the persistent query of an id, or all of them for None. Raises StatementError: there is none."""
        if query_id is None:
            return list(self.queries)
        found = next((each for each in self.queries if each.upper() == query_id.upper()), None)
        if found is None:
            known = ", ".join(sorted(self.queries)) or "none"
            location = getattr(query_id, "location", None)
            raise StatementError(f"Unknown queryId: {query_id}; persistent queries are {known}", location)
        return [found]


def message_of(statement: Statement, planned: Planned) -> str:
    """Return the text of a status, as ksqlDB has it."""
    if planned.query_id is not None:
        return f"Created query with ID {planned.query_id}"
    match statement:
        case CreateTable():
            return "Table created"
        case CreateSource():
            return "Stream created"
        case DropSource(name=name):
            if planned.dropped is None:
                return f"Source {quoted(name)} does not exist."
            return f"Source {quoted(name)} (topic: {planned.dropped.topic}) was dropped."
        case CreateType(name=name, type=kind):
            return f"Registered custom type with name '{name}' and SQL type {kind}"
        case DropType(name=name):
            return f"Type '{name}' does not exist" if planned.already else f"Dropped type '{name}'"
        case CreateFunction(name=name):
            return f"Function {name} created"
        case DropFunction(name=name):
            return f"Function {name} was dropped"
        case AlterSource(kind=kind, name=name):
            return f"{kind.value.capitalize()} {quoted(name)} altered."
    return "Done"


def command_id(statement: Statement) -> CommandId:
    """Return the id of the command of a statement. Raises StatementError: it is none that the topic takes."""
    match statement:
        case CreateSource(name=name) | CreateAs(name=name):
            kind = Type.TABLE if "Table" in type(statement).__name__ else Type.STREAM
            return CommandId(kind, quoted(name), Action.CREATE)
        case InsertInto(target=target):
            return CommandId(Type.STREAM, quoted(target), Action.CREATE)
        case DropSource(name=name):
            kind = Type.TABLE if "Table" in type(statement).__name__ else Type.STREAM
            return CommandId(kind, str(name), Action.DROP)
        case CreateType(name=name):
            return CommandId(Type.TYPE, str(name), Action.CREATE)
        case DropType(name=name):
            return CommandId(Type.TYPE, str(name), Action.DROP)
        case CreateFunction(name=name):
            return CommandId(Type.FUNCTION, str(name), Action.CREATE)
        case DropFunction(name=name):
            return CommandId(Type.FUNCTION, str(name), Action.DROP)
        case AlterSource(kind=of, name=name):
            return CommandId(Type.STREAM if of is SourceKind.STREAM else Type.TABLE, str(name), Action.ALTER)
        case Terminate(query_id=query_id):
            return CommandId(Type.TERMINATE, str(query_id or "ALL"), Action.EXECUTE)
        case Pause(query_id=query_id):
            return CommandId(Type.PAUSE, str(query_id or "ALL"), Action.EXECUTE)
        case Resume(query_id=query_id):
            return CommandId(Type.RESUME, str(query_id or "ALL"), Action.EXECUTE)
        case AlterSystem(name=name):
            return CommandId(Type.CLUSTER, name, Action.ALTER)
    raise StatementError(f"{type(statement).__name__} is no command", statement.location)
