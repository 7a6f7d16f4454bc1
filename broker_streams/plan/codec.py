"""A topology as JSON and back.

    {"format": 1, "topology": {"is": "Topology", "nodes": [...], "stores": [...], ...}}

A frozen class of the plan is an object with its name in `is`: a step's name is its KIND, with the version of its
meaning. A function of the user is {"is": "function", "place": PLACE}: the application gives it again when the plan is
read. A serde is {"is": "serde", "name": NAME}, a member of an enumeration {"is": "StoreKind", "value": "window"}. A
plan that a released version wrote stays readable: fields that it lacks get their defaults.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import InternalTopic, ProcessorNode, Sink, Source, Topology

FORMAT: Final = 1
_CLASSES: dict[str, type] = {
    each.__name__: each
    for each in (Topology, Source, ProcessorNode, Sink, Store, InternalTopic, StoreKind, TimestampExtractor)
}


class PlanError(ValueError):
    """The text is not a plan, or not one that this version can read. The message names the place."""


def part_of_plans(made: type) -> type:
    """Decorate a frozen class or an enumeration that fields of steps hold: windows, an emit strategy."""
    if _CLASSES.setdefault(made.__name__, made) is not made:
        raise TypeError(f"two parts of plans have the name {made.__name__}")
    return made


def to_json(topology: Topology) -> str:
    """Return the text of a plan. Raises TypeError if a field holds a value that is not data."""
    return json.dumps({"format": FORMAT, "topology": _encoded(topology)}, indent=1, ensure_ascii=False)


def functions_of(topology: Topology) -> dict[str, Callable[..., Any]]:
    """Return the functions of the user by their place."""
    return {each.place: each.call for each in _functions(topology)}


def from_json(
    text: str, functions: Mapping[str, Callable[..., Any]], serde_of: Callable[[str], Any] | None = None
) -> Topology:
    """Read a plan. `functions` are those of the application; `serde_of` finds a serde by its name. Raises PlanError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise PlanError(f"the plan is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else found
        raise PlanError(f"the plan has format {shown!r}; this version reads {FORMAT}")
    topology = _Reader(functions, serde_of).decoded(found.get("topology"), "topology")
    if not isinstance(topology, Topology):
        raise PlanError("the plan holds no topology")
    return topology


def _encoded(value: Any) -> Any:
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, Function):
        return {"is": "function", "place": value.place}
    if isinstance(value, enum.Enum):
        return {"is": type(value).__name__, "value": value.value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).KIND if isinstance(value, Step) else type(value).__name__
        fields = {each.name: _encoded(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return {"is": name, **fields}
    if isinstance(value, tuple | list):
        return [_encoded(each) for each in value]
    if isinstance(value, frozenset):
        return {"is": "set", "of": sorted(value)}
    if isinstance(value, Mapping):
        return {"is": "map", "of": [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    if hasattr(value, "serialize") and hasattr(value, "name"):
        return {"is": "serde", "name": value.name}
    raise TypeError(f"a plan cannot hold {value!r}")


def _functions(value: Any) -> Iterator[Function]:
    if isinstance(value, Function):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from _functions(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _functions(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _functions(each)


class _Reader:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], serde_of: Callable[[str], Any] | None) -> None:
        self._functions = functions
        self._serde_of = serde_of

    def decoded(self, value: Any, place: str) -> Any:
        if isinstance(value, list):
            return tuple(self.decoded(each, f"{place}[{at}]") for at, each in enumerate(value))
        if not isinstance(value, dict):
            return value
        name = value.get("is")
        if name == "function":
            return self._function(value.get("place"), place)
        if name == "serde":
            return self._serde(value.get("name"), place)
        if name == "set":
            return frozenset(value["of"])
        if name == "map":
            return {self.decoded(key, place): self.decoded(each, f"{place}.{key}") for key, each in value["of"]}
        made = Step.kinds.get(str(name)) or _CLASSES.get(str(name))
        if made is None:
            raise PlanError(f"{place} is {name!r}, which this version does not know")
        if issubclass(made, enum.Enum):
            return made(value.get("value"))
        return self._part(made, value, place)

    def _part(self, made: type, value: dict[str, Any], place: str) -> Any:
        known = {each.name for each in dataclasses.fields(made) if each.init}
        given = {name: each for name, each in value.items() if name != "is"}
        if unknown := sorted(given.keys() - known):
            raise PlanError(f"{place} ({value['is']}) has a field {unknown[0]!r}, which this version does not know")
        try:
            return made(**{name: self.decoded(each, f"{place}.{name}") for name, each in given.items()})
        except TypeError as error:
            raise PlanError(f"{place} ({value['is']}): {error}") from None

    def _function(self, name: Any, place: str) -> Function:
        call = self._functions.get(name)
        if call is None:
            raise PlanError(f"{place}: the application has no function {name!r}")
        return Function(name, call)

    def _serde(self, name: Any, place: str) -> Any:
        try:
            found = self._serde_of(name) if self._serde_of is not None else None
        except LookupError:
            found = None
        if found is None:
            raise PlanError(f"{place}: no serde has the name {name!r}")
        return found
