"""The session of one request: settings and variables that its statements change for those behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sql.dialect import parse_each
from broker_sql.errors import StatementError
from broker_sql.server.config import ServerConfig
from broker_sql.statements import Define, SetProperty, Statement, Undefine, UnsetProperty


@dataclass(slots=True)
class Session:
    """`properties` are the settings of the request, `variables` those for `${name}`."""

    properties: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def statements(self, text: str, *, substitutes: bool) -> Iterator[Statement]:
        """Yield the statements of a text; DEFINE, UNDEFINE, SET and UNSET have their effect before the next one. Raises
        ParseError.
        """
        for statement, _ in parse_each(text, self.variables if substitutes else None):
            match statement:
                case Define(name=name, value=value):
                    self.variables[name] = value
                case Undefine(name=name):
                    self._undefine(name)
                case SetProperty(name=name, value=value):
                    self.properties[name] = value
                case UnsetProperty(name=name):
                    self.properties.pop(name, None)
            yield statement

    def _undefine(self, name: str) -> None:
        for each in [each for each in self.variables if each.upper() == name.upper()]:
            del self.variables[each]


def session_of(properties: Mapping[str, Any], variables: Mapping[str, Any], config: ServerConfig) -> Session:
    """Raises StatementError: a setting is one that requests may not change."""
    problem = config.problem_of(properties)
    if problem:
        raise StatementError(problem)
    return Session(dict(properties), {name: str(value) for name, value in variables.items()})
