"""Calls of functions for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from broker_sql.functions import ArgumentType, Environment, FunctionRegistry, standard
from broker_sql.functions.patterns import Pattern, signatures
from broker_sql.types import SqlType

NOW_MS = 1_700_000_000_123
REGISTRY = standard(Environment(now_ms=lambda: NOW_MS, random=random.Random(7)))


def kind(text: str) -> SqlType:
    """Return the type in the text, such as `ARRAY<INT>` and `DECIMAL(4, 2)`."""
    pattern: Pattern = signatures(f"(value {text})")[0].parameters[0].pattern
    found = pattern.concrete({}, None)
    assert found is not None, text
    return found


def kinds(*texts: str | None) -> list[ArgumentType]:
    return [None if each is None else kind(each) for each in texts]


def scalar(name: str, types: Sequence[str | None], *values: Any, registry: FunctionRegistry = REGISTRY) -> Any:
    """Return the value of the call."""
    return registry.scalar(name, kinds(*types)).call(*values)


def returned(name: str, *types: str | None) -> str:
    """Return the text of the return type."""
    return str(REGISTRY.scalar(name, kinds(*types)).return_type)


def aggregated(
    name: str, types: Sequence[str], values: Sequence[Any], constants: dict[int, Any] | None = None
) -> list[Any]:
    """Return the result after each value."""
    found = REGISTRY.aggregate(name, kinds(*types), constants)
    state, results = found.initialize(), []
    for each in values:
        state = found.add(each, state)
        results.append(found.result(state))
    return results
