"""Functions that ksqlDB's tests bring with them."""

from __future__ import annotations

from broker_sql.functions import FunctionRegistry


def with_test_functions(registry: FunctionRegistry) -> FunctionRegistry:
    return registry
