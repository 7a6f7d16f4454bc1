"""A mapping that contains changes to another mapping, so that they can be undone by dropping it.

The controller validates an operation against state that is not committed yet. That state consists of the committed
tables seen through overlays: reads of unchanged keys go to the table below, writes stay in the overlay, and a commit
moves the changes to the table below in time proportional to their number.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class _Absent:
    """Marks a key that this overlay removed."""

    __slots__ = ()


ABSENT = _Absent()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """Changes to `base`, which must not change itself, except by `merge` of changes that this overlay has, too."""

    __slots__ = ("base", "changes")

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self.base = base
        self.changes: dict[K, V | _Absent] = {}

    def __getitem__(self, key: K) -> V:
        if key in self.changes:
            value = self.changes[key]
            if value is ABSENT:
                raise KeyError(key)
            return cast(V, value)
        return self.base[key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...

    def get(self, key: K, default: V | D | None = None, /) -> V | D | None:
        if key in self.changes:
            value = self.changes[key]
            return default if value is ABSENT else cast(V, value)
        return self.base.get(key, default)

    def __contains__(self, key: object) -> bool:
        if key in self.changes:
            return self.changes[key] is not ABSENT
        return key in self.base

    def __setitem__(self, key: K, value: V) -> None:
        self.changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.changes[key] = ABSENT

    def __iter__(self) -> Iterator[K]:
        for key in self.base:
            if self.changes.get(key) is not ABSENT:
                yield key
        for key, value in self.changes.items():
            if value is not ABSENT and key not in self.base:
                yield key

    def __len__(self) -> int:
        count = len(self.base)
        for key, value in self.changes.items():
            count += (value is not ABSENT) - (key in self.base)
        return count


def changes_of(table: MutableMapping[Any, Any]) -> list[tuple[Any, Any]]:
    """The changes of an overlay, as (key, value); ABSENT for a removed key."""
    assert isinstance(table, Overlay)
    return list(table.changes.items())


def forget(overlay: MutableMapping[K, V], merged: MutableMapping[K, V]) -> None:
    """Drop the changes of `merged` from `overlay`, except those that were replaced since. O(changes of `merged`)."""
    assert isinstance(overlay, Overlay)
    assert isinstance(merged, Overlay)
    for key, value in merged.changes.items():
        # An equal object that was set later is the same change: the table below has it, too.
        if key in overlay.changes and overlay.changes[key] is value:
            del overlay.changes[key]


def merge(base: MutableMapping[K, V], overlay: MutableMapping[K, V]) -> None:
    """Move the changes of `overlay` into `base`. O(changes)."""
    assert isinstance(overlay, Overlay)
    for key, value in overlay.changes.items():
        if value is ABSENT:
            base.pop(key, None)
        else:
            base[key] = cast(V, value)
