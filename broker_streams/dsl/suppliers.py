"""Suppliers of users' processors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_streams.plan.stores import Store
from broker_streams.plan.topology import TopologyError


def checked_supplier(supplier: Callable[[], Any]) -> Callable[[], Any]:
    """Raises TopologyError: `supplier` is none, or two tasks would share its processor."""
    if not callable(supplier):
        raise TopologyError(f"{supplier!r} is no supplier; a class of processors is one, or a function that makes one")
    if supplier() is supplier():
        raise TopologyError(f"supplier {supplier!r} returns the same processor twice; each task needs its own")
    return supplier


def stores_of(supplier: Any) -> Sequence[Store]:
    """The stores that a supplier brings (KIP-401): `stores()` of it, if it has that."""
    stores = getattr(supplier, "stores", None)
    return () if stores is None else tuple(stores() or ())
