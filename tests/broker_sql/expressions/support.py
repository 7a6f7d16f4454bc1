"""Expressions from texts, over columns with types as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from broker_sql import expressions
from broker_sql.dialect import parse_expression, parse_type, to_text
from broker_sql.errors import AnalysisError
from broker_sql.expressions import Compiled, Scope
from broker_sql.types import LambdaShape, LambdaType, SqlType


@dataclass(frozen=True)
class Call:
    parameters: tuple[SqlType | None, ...]
    return_type: SqlType
    call: Callable[..., Any]


class FewFunctions:
    """Three functions, of any name of theirs: expressions are tested without the registry of all functions."""

    def scalar(self, name: str, argument_types: Sequence[SqlType | None]) -> Call:
        kinds = tuple(argument_types)
        match name:
            case "TWICE":
                return Call(
                    (parse_type("DOUBLE"),), parse_type("DOUBLE"), lambda value: None if value is None else value * 2
                )
            case "FAIL":
                return Call(kinds, parse_type("INTEGER"), _fail)
            case "CONCAT":
                return Call(kinds, parse_type("STRING"), lambda *texts: "".join(each or "" for each in texts))
            case "COUNTED":
                return Call(
                    kinds, parse_type("INTEGER"), lambda *values: len([each for each in values if each is not None])
                )
            case "APPLY":
                kind = kinds[1]
                assert isinstance(kind, LambdaType)
                return Call(kinds, kind.result, lambda value, function: function(value))
        raise AnalysisError(f"no function {name}")

    def lambda_parameters(
        self, name: str, argument_types: Sequence[SqlType | None]
    ) -> tuple[tuple[SqlType, ...] | None, ...]:
        first = argument_types[0]
        assert first is not None
        return tuple((first,) if isinstance(each, LambdaShape) else None for each in argument_types)


def _fail(*values: Any) -> Any:
    raise ValueError("it fails")


class Columns:
    """Columns with names and types in order; `log` collects the errors of records."""

    def __init__(self, **columns: str) -> None:
        self.log: list[tuple[str, str]] = []
        self.scope = Scope(
            {(None, name.upper()): (index, parse_type(kind)) for index, (name, kind) in enumerate(columns.items())},
            FewFunctions(),
            lambda text, node: self.log.append((text, to_text(node))),
        )
        self.names = [name.upper() for name in columns]

    def compile(self, text: str, target: str | None = None) -> Compiled:
        return expressions.compile(parse_expression(text), self.scope, parse_type(target) if target else None)

    def value(self, text: str, **values: Any) -> Any:
        return self.compile(text).evaluate(self.row(**values))

    def row(self, **values: Any) -> tuple[Any, ...]:
        upper = {name.upper(): value for name, value in values.items()}
        return tuple(upper.get(name) for name in self.names)

    def type(self, text: str) -> str:
        return str(expressions.type_of(parse_expression(text), self.scope))
