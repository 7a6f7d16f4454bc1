"""Requests with unusual values: each value of each field alone, and random combinations of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

# Field -> name of a value -> the value.
Pools = Mapping[str, Mapping[str, Any]]
Fields = dict[str, Any]
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def pool(*values: Any, **named: Any) -> dict[str, Any]:
    """Values under their own text, and values under a name."""
    return {**{repr(value): value for value in values}, **named}


def variants(pools: Pools, seed: int, combinations: int) -> Iterator[tuple[str, Fields]]:
    """Yield (label, fields that differ from the valid request): single values first, then `combinations` of two to
    four, the same in every run.
    """
    for field, values in pools.items():
        for name, value in values.items():
            yield f"{field}={name}", {field: value}
    chance = random.Random(seed)
    for number in range(combinations):
        fields = sorted(chance.sample(list(pools), min(len(pools), chance.randint(2, 4))))
        chosen = {field: chance.choice(list(pools[field])) for field in fields}
        shown = ", ".join(f"{field}={name}" for field, name in chosen.items())
        yield f"{number}: {shown}", {field: pools[field][name] for field, name in chosen.items()}
