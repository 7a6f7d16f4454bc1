"""The registry for all serdes with schemas in a part of a plan. The host gives it; a plan has none."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from broker_streams.serdes.schemas.lookups import SchemaRegistry


def with_registry(value: Any, registry: SchemaRegistry | None, *, is_key: bool = False) -> Any:
    """Return a serde, or a part of a plan, whose serdes have the registry; without such serdes, `value` itself.

    A field whose name ends with `key_serde` has the serde of keys. Raises ValueError: there is a serde with schemas,
    and no registry.
    """
    if value is None or isinstance(value, str | int | bytes):
        return value
    if hasattr(value, "serialize"):
        return _serde(value, registry, is_key=is_key)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for each in dataclasses.fields(value):
            given = getattr(value, each.name)
            if each.init:
                found = with_registry(given, registry, is_key=each.name.endswith("key_serde"))
                if found is not given:
                    changed[each.name] = found
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(with_registry(each, registry) for each in value)
        return value if all(map(_is_same, items, value)) else items
    if isinstance(value, Mapping):
        members = {key: with_registry(each, registry) for key, each in value.items()}
        return value if all(map(_is_same, members.values(), value.values())) else members
    return value


def _is_same(found: Any, given: Any) -> bool:
    return found is given


def _serde(serde: Any, registry: SchemaRegistry | None, *, is_key: bool) -> Any:
    if hasattr(serde, "with_registry"):
        return serde.with_registry(registry, is_key=is_key)
    inner = getattr(serde, "inner", None)
    if inner is None:
        return serde
    # A subscription of a foreign-key join has a key in its value.
    found = _serde(inner, registry, is_key=getattr(serde, "has_key_inside", is_key))
    if found is inner:
        return serde
    outer = copy.copy(serde)
    outer.inner = found
    return outer


def of_source(serde: Any) -> Any:
    """The serde of a topic that others write: schema ids may be in headers of its records."""
    found = getattr(serde, "of_source", None)
    return serde if found is None else found()
