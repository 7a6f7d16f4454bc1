"""The registry of the functions that come with broker_sql."""

from __future__ import annotations

from types import ModuleType

from broker_sql.functions.aggregates import basic, collecting, distinct
from broker_sql.functions.calls import Environment
from broker_sql.functions.registry import FunctionRegistry, registry_of
from broker_sql.functions.scalars import arrays, bytes, json, lambdas, math, nulls, regexps, strings, times, urls
from broker_sql.functions.tables import TABLE

CATEGORIES = (
    math.MATH,
    strings.STRING,
    regexps.REGEXP,
    bytes.BYTES,
    times.TIME,
    arrays.ARRAY,
    arrays.MAP,
    lambdas.LAMBDA,
    json.JSON,
    urls.URL,
    nulls.CONDITIONAL,
    math.GEO,
    basic.AGGREGATE,
    TABLE,
)


# Both add functions to basic.AGGREGATE.
_MORE: tuple[ModuleType, ...] = (collecting, distinct)


def standard(environment: Environment | None = None) -> FunctionRegistry:
    """Return the registry of all functions."""
    return registry_of((each.functions for each in CATEGORIES), environment)
