"""Statements of a session, each to the place that runs it.

SET, UNSET, DEFINE, UNDEFINE, SHOW VARIABLES and RUN SCRIPT belong to the session: the server sees the properties with
each statement, and texts with the values of variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from broker_cy.client.errors import ClientError, Failure
from broker_sql.client import Entity, Printed, Refused, Rows, Settings, SqlClient
from broker_sql.dialect import parse_each
from broker_sql.errors import Location
from broker_sql.statements import (
    Define,
    Emit,
    ListVariables,
    Preview,
    Print,
    Query,
    RunScript,
    SetProperty,
    Statement,
    Undefine,
    UnsetProperty,
)

SCRIPT_BYTES_MAX: Final = 4 << 20
LAST_RECORDS: Final = "brokercy.sql.last.records"
PREVIEW_RECORDS: Final = 100  # of each partition, for PREVIEW without a number
SCRIPT_DEPTH_MAX: Final = 10  # of scripts that run scripts


class Output(Protocol):
    """Where results go."""

    def entity(self, entity: Entity) -> None: ...

    def rows(self, rows: Rows, is_push: bool) -> None:
        """Show rows until they end or the user ends them."""

    def printed(self, printed: Printed) -> None: ...

    def note(self, text: str) -> None: ...


class Session:
    """The state of a terminal, and the way of its statements."""

    def __init__(self, client: SqlClient, output: Output) -> None:
        self.client = client
        self.output = output
        self.properties: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of variables as they were written, by their upper case
        self._depth = 0

    def run(self, text: str) -> None:
        """Run the statements of a text in their order, up to the first error.

        Raises SqlError for a text that is none, and ClientError."""
        for statement, _ in parse_each(text, self.variables):
            try:
                self._run(statement)
            except ClientError as error:
                place = statement.location
                if place is None or place == Location(1, 1):
                    raise
                # Places in messages of the server are those in the statement.
                raise error.about(f"statement at {place}") from None

    def _run(self, statement: Statement) -> None:
        local = self._local.get(type(statement))
        if local is not None:
            local(self, statement)
            return
        text = statement.text + ";"
        if isinstance(statement, Preview):
            records = str(statement.records or PREVIEW_RECORDS)
            settings = Settings({**self.properties, LAST_RECORDS: records})
            with self.client.query(statement.statement.text + ";", settings) as rows:
                self.output.rows(rows, is_push=False)
        elif isinstance(statement, Query):
            with self.client.query(text, self._settings()) as rows:
                self.output.rows(rows, statement.emit is Emit.CHANGES or statement.emit is Emit.FINAL)
        elif isinstance(statement, Print):
            with self.client.print_topic(text, self._settings()) as printed:
                self.output.printed(printed)
        else:
            self._execute(text)

    def _execute(self, text: str) -> None:
        try:
            found = self.client.execute(text, self._settings())
        except Refused as error:
            for entity in error.entities:
                self.output.entity(entity)
            raise
        for entity in found:
            self.output.entity(entity)

    def _settings(self) -> Settings:
        return Settings(self.properties)

    def _set(self, statement: SetProperty) -> None:
        self.properties[statement.name] = statement.value
        self.output.note(f"{statement.name} = {statement.value}")

    def _unset(self, statement: UnsetProperty) -> None:
        if statement.name not in self.properties:
            known = ", ".join(sorted(self.properties)) or "none"
            raise ClientError(Failure.INVALID, f"the session has not set it; set: {known}", what=statement.name)
        del self.properties[statement.name]
        self.output.note(f"{statement.name} has the server's value")

    def _define(self, statement: Define) -> None:
        self.variables[statement.name.upper()] = statement.value
        self._names[statement.name.upper()] = statement.name
        self.output.note(f"{statement.name} = {statement.value}")

    def _undefine(self, statement: Undefine) -> None:
        if self.variables.pop(statement.name.upper(), None) is None:
            raise ClientError(Failure.INVALID, "the variable is not defined", what=statement.name)
        self.output.note(f"{statement.name} is not defined any more")

    def _list_variables(self, statement: ListVariables) -> None:
        found = [{"name": self._names.get(name, name), "value": value} for name, value in self.variables.items()]
        self.output.entity({"@type": "variables", "statementText": statement.text + ";", "variables": found})

    def _run_script(self, statement: RunScript) -> None:
        if self._depth >= SCRIPT_DEPTH_MAX:
            raise ClientError(
                Failure.INVALID, f"more than {SCRIPT_DEPTH_MAX} scripts in each other", what=statement.path
            )
        text = read_script(Path(statement.path))
        self._depth += 1
        try:
            self.run(text)
        finally:
            self._depth -= 1

    _local: Final[dict[type[Statement], Callable[[Session, Any], None]]] = {
        SetProperty: _set,
        UnsetProperty: _unset,
        Define: _define,
        Undefine: _undefine,
        ListVariables: _list_variables,
        RunScript: _run_script,
    }


def read_script(path: Path) -> str:
    """Return the text of a file with statements. Raises ClientError."""
    try:
        with path.open("rb") as file:
            content = file.read(SCRIPT_BYTES_MAX + 1)
        if len(content) > SCRIPT_BYTES_MAX:
            raise ClientError(Failure.INVALID, f"more than {SCRIPT_BYTES_MAX} bytes", what=str(path))
        return content.decode()
    except OSError as error:
        raise ClientError(Failure.INVALID, error.strerror or str(error), what=str(path)) from None
    except UnicodeDecodeError as error:
        raise ClientError(Failure.INVALID, f"no UTF-8 at byte {error.start}", what=str(path)) from None
