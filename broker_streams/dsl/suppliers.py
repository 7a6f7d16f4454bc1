"""Suppliers of users' processors, and the stores that they use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_streams.plan.stores import Store
from broker_streams.plan.topology import TopologyError


def checked_supplier(supplier: Callable[[], Any]) -> Callable[[], Any]:
    """Raises TopologyError: `supplier` is none, or two tasks would share its processor."""
    if not callable(supplier):
        raise TopologyError(f"{supplier!r} is no supplier; a class of processors is one, or a function that makes one")
    try:
        first, second = supplier(), supplier()
    except TypeError as error:
        raise TopologyError(
            f"{supplier!r} cannot make a processor: {error}; a class of processors, or a function without arguments"
            " that makes one, is expected"
        ) from error
    if first is not None and not callable(getattr(first, "process", None)):
        raise TopologyError(f"supplier {supplier!r} makes {first!r}, which is no processor: it has no method process")
    if first is second:
        raise TopologyError(f"supplier {supplier!r} returns the same processor twice; each task needs its own")
    return supplier


def stores_of(supplier: Any) -> Sequence[Store]:
    """The stores that a supplier brings (KIP-401): `stores()` of it, if it has that."""
    stores = getattr(supplier, "stores", None)
    return () if stores is None else tuple(stores() or ())


def checked_store(store: Store) -> Store:
    """Raises TopologyError: `store` is none."""
    if not isinstance(store, Store):
        raise TopologyError(f"{store!r} is no Store; Store(name, StoreKind.KEY_VALUE, KEY_SERDE, VALUE_SERDE) is one")
    return store
