"""How a processor reads the rows of a table that another processor of its task keeps, as data of a plan.

A table without a store has no rows: its getter computes them from the rows of its parent (Kafka's value getters).
kernel/value_getters.py opens a getter.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_streams.plan.codec import part_of_plans
from broker_streams.plan.functions import Function


@part_of_plans
@dataclass(frozen=True)
class StoreGetter:
    """Rows of a timestamped or versioned store."""

    store: str


@part_of_plans
@dataclass(frozen=True)
class WindowStoreGetter:
    """Rows of a window store, by Windowed keys."""

    store: str


@part_of_plans
@dataclass(frozen=True)
class SessionStoreGetter:
    """Rows of a session store, by Windowed keys. The timestamp of a row is the end of its session."""

    store: str


@part_of_plans
@dataclass(frozen=True)
class FilterGetter:
    """Rows of the parent for which the predicate is true; with `negate`, those for which it is false."""

    parent: ValueGetter
    predicate: Function
    negate: bool = False


@part_of_plans
@dataclass(frozen=True)
class MapValuesGetter:
    """Rows of the parent with `mapper(value)`; with `with_key`, with `mapper(key, value)`."""

    parent: ValueGetter
    mapper: Function
    with_key: bool = False


@part_of_plans
@dataclass(frozen=True)
class TransformValuesGetter:
    """`supplier()` returns a transformer; its `transform(key, value)` is called for missing rows too."""

    parent: ValueGetter
    supplier: Function


@part_of_plans
@dataclass(frozen=True)
class JoinGetter:
    """`joiner(left, right)` of two rows with one key. `kind` is inner, left or outer."""

    kind: str
    left: ValueGetter
    right: ValueGetter
    joiner: Function


@part_of_plans
@dataclass(frozen=True)
class SuppressGetter:
    """The row that was passed on last, for keys in the buffer; for all others the parent's row."""

    parent: ValueGetter
    store: str


ValueGetter = (
    StoreGetter
    | WindowStoreGetter
    | SessionStoreGetter
    | FilterGetter
    | MapValuesGetter
    | TransformValuesGetter
    | JoinGetter
    | SuppressGetter
)


def stores_of(getter: ValueGetter) -> tuple[str, ...]:
    """The stores that a processor with this getter must be connected to."""
    if isinstance(getter, StoreGetter | WindowStoreGetter | SessionStoreGetter):
        return (getter.store,)
    if isinstance(getter, JoinGetter):
        return tuple(dict.fromkeys((*stores_of(getter.left), *stores_of(getter.right))))
    parents = stores_of(getter.parent)
    return (getter.store, *parents) if isinstance(getter, SuppressGetter) else parents
