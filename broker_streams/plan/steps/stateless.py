"""Steps without a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step


@dataclass(frozen=True)
class Filter(Step):
    """Passes records on for which `predicate(key, value)` is true; with `negate`, those for which it is false."""

    KIND: ClassVar[str] = "filter.1"
    predicate: Function
    negate: bool = False


@dataclass(frozen=True)
class FilterNullKey(Step):
    """Passes records with a key on: in front of a repartition topic."""

    KIND: ClassVar[str] = "filter-null-key.1"


@dataclass(frozen=True)
class Map(Step):
    """`mapper(key, value)` returns (key, value)."""

    KIND: ClassVar[str] = "map.1"
    mapper: Function


@dataclass(frozen=True)
class MapValues(Step):
    """`mapper(value)` returns a value; with `with_key` it is called as `mapper(key, value)`."""

    KIND: ClassVar[str] = "map-values.1"
    mapper: Function
    with_key: bool = False


@dataclass(frozen=True)
class FlatMap(Step):
    """`mapper(key, value)` returns an iterable of (key, value)."""

    KIND: ClassVar[str] = "flat-map.1"
    mapper: Function


@dataclass(frozen=True)
class FlatMapValues(Step):
    """As MapValues, with an iterable of values."""

    KIND: ClassVar[str] = "flat-map-values.1"
    mapper: Function
    with_key: bool = False


@dataclass(frozen=True)
class SelectKey(Step):
    """`mapper(key, value)` returns the new key."""

    KIND: ClassVar[str] = "select-key.1"
    mapper: Function


@dataclass(frozen=True)
class Branch(Step):
    """A record goes to the child of the first predicate that is true, else to `default`, else to none. `children` are
    pairs of a predicate and the name of a child.
    """

    KIND: ClassVar[str] = "branch.1"
    children: tuple[tuple[Function, str], ...]
    default: str | None = None


@dataclass(frozen=True)
class PassThrough(Step):
    """Passes each record on: a merge, a branch."""

    KIND: ClassVar[str] = "pass-through.1"


@dataclass(frozen=True)
class Peek(Step):
    """Calls `action(key, value)`; `forwards` is False for `foreach`."""

    KIND: ClassVar[str] = "peek.1"
    action: Function
    forwards: bool = True


@dataclass(frozen=True)
class Print(Step):
    """Passes one line for each record to `write`: [label]: key, value."""

    KIND: ClassVar[str] = "print.1"
    write: Function
    label: str
    mapper: Function | None = None
