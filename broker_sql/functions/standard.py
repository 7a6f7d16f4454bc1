"""The registry of the functions that come with broker_sql."""

from __future__ import annotations

from broker_sql.functions.aggregates import basic
from broker_sql.functions.calls import Environment
from broker_sql.functions.registry import FunctionRegistry, registry_of
from broker_sql.functions.scalars import lambdas, nulls
from broker_sql.functions.tables import TABLE

_CATEGORIES = (nulls.CONDITIONAL, lambdas.LAMBDA, basic.AGGREGATE, TABLE)


def standard(environment: Environment | None = None) -> FunctionRegistry:
    """Return the registry of all functions."""
    return registry_of((each.functions for each in _CATEGORIES), environment)
