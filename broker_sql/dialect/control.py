"""TERMINATE, PAUSE, RESUME, SET, UNSET, ALTER SYSTEM, DEFINE, UNDEFINE, RUN SCRIPT."""

from __future__ import annotations

from broker_sql.dialect.cursor import Cursor
from broker_sql.statements import (
    AlterSystem,
    Define,
    Name,
    Pause,
    Resume,
    RunScript,
    SetProperty,
    Terminate,
    Undefine,
    UnsetProperty,
)

_OF_QUERIES: dict[str, type[Terminate] | type[Pause] | type[Resume]] = {
    "TERMINATE": Terminate,
    "PAUSE": Pause,
    "RESUME": Resume,
}


def of_query(cursor: Cursor) -> Terminate | Pause | Resume:
    """Parse TERMINATE, PAUSE and RESUME."""
    form = _OF_QUERIES[cursor.expect_one(*_OF_QUERIES)]
    if cursor.accept("ALL"):
        return form()
    return form(query_id=cursor.name("the id of a query"))


def set_property(cursor: Cursor) -> SetProperty:
    cursor.expect("SET")
    name, value = _assignment(cursor)
    return SetProperty(name=name, value=value)


def unset_property(cursor: Cursor) -> UnsetProperty:
    cursor.expect("UNSET")
    return UnsetProperty(name=cursor.string("the name of a property in single quotes"))


def alter_system(cursor: Cursor) -> AlterSystem:
    """Parse what stands behind ALTER SYSTEM."""
    cursor.expect("SYSTEM")
    name, value = _assignment(cursor)
    return AlterSystem(name=name, value=value)


def _assignment(cursor: Cursor) -> tuple[str, str]:
    name = cursor.string("the name of a property in single quotes")
    cursor.expect_symbol("=")
    return name, cursor.string("a value in single quotes")


def define(cursor: Cursor) -> Define:
    cursor.expect("DEFINE")
    name = _variable(cursor)
    cursor.expect_symbol("=")
    return Define(name=name, value=cursor.string("a value in single quotes"))


def undefine(cursor: Cursor) -> Undefine:
    cursor.expect("UNDEFINE")
    return Undefine(name=_variable(cursor))


def _variable(cursor: Cursor) -> Name:
    """Take the name of a variable as it is written, because SHOW VARIABLES shows it so."""
    written = cursor.token.text
    return Name(written, cursor.name("the name of a variable").location)


def run_script(cursor: Cursor) -> RunScript:
    cursor.expect("RUN", "SCRIPT")
    return RunScript(path=cursor.string("the path of a file in single quotes"))
