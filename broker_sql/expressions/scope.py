"""Names that an expression may use: columns of its row, parameters of lambdas, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from broker_sql.types import SqlType

# Called with the text of an error and the expression, while a record is evaluated: ksqlDB's processing log.
Log = Callable[[str, exp.Expr], None]
# (source or None, name of the column) -> (index in the row, type)
Columns = Mapping[tuple[str | None, str], tuple[int, SqlType]]


class ScalarCall(Protocol):
    """One variant of a scalar function, for the types of one call."""

    @property
    def parameters(self) -> tuple[SqlType | None, ...]: ...

    @property
    def return_type(self) -> SqlType: ...

    @property
    def call(self) -> Callable[..., Any]: ...


class Functions(Protocol):
    """The part of the registry of functions that expressions use (broker_sql.functions)."""

    def scalar(self, name: str, argument_types: Sequence[SqlType | None]) -> ScalarCall: ...

    def lambda_parameters(
        self, name: str, argument_types: Sequence[SqlType | None]
    ) -> tuple[tuple[SqlType, ...] | None, ...]: ...


def silent(text: str, node: exp.Expr) -> None:
    """Log nothing."""


@dataclass(frozen=True)
class Scope:
    """Names for expressions over one schema. `lambdas` are the parameters of lambdas around the expression."""

    columns: Columns
    functions: Functions | None = None
    log: Log = silent
    lambdas: Mapping[str, SqlType] = field(default_factory=dict)

    def inside(self, parameters: Mapping[str, SqlType]) -> Scope:
        """Return the scope of a lambda's body: its parameters hide columns and outer parameters of the same name."""
        return replace(self, lambdas={**self.lambdas, **parameters})
