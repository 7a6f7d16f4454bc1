"""Lineage that the author of a function declares, where the function cannot be traced.

    @declared_lineage(value={"*": "order", "country": ["order.ip"]})
    def located(order):
        return order | {"country": COUNTRIES[order["ip"]]}

The names of arguments are those of the call in Kafka: key, value; left, right of joiners; aggregate of aggregators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_streams.plan.lineage.columns import REST, Use
from broker_streams.plan.lineage.shapes import Origins, Shape, changed, deciding, united

Call = TypeVar("Call", bound=Callable[..., Any])
Declared = str | Sequence[str] | Mapping[str, Any]
"""Arguments or fields of them ("value.price"), or those of each field. Fields under "*" are copied, as is Copied."""
_ATTRIBUTE: Final = "__declared_lineage__"


class Copied(str):
    """An argument, or a field of one, that is the result as it is: Copied("value.price")."""

    __slots__ = ()


class LineageError(ValueError):
    """A declared lineage does not fit its function. The message names the value and what is allowed."""


@dataclass(frozen=True)
class Declaration:
    key: Declared | None
    value: Declared | None
    conditions: tuple[str, ...]


def declared_lineage(
    *, key: Declared | None = None, value: Declared | None = None, conditions: Iterable[str] = ()
) -> Callable[[Call], Call]:
    """Decorate a function, or a supplier of processors, with the arguments that its results come from.

    `key` and `value` are parts of the result: `value` also of a function that returns no pair, `key` also of one that
    returns a key. A part that is not declared comes from no column. `conditions` decide about the results.
    """

    def declare(call: Call) -> Call:
        setattr(call, _ATTRIBUTE, Declaration(key, value, tuple(conditions)))
        return call

    return declare


def declaration_of(call: Callable[..., Any]) -> Declaration | None:
    found: Declaration | None = getattr(call, _ATTRIBUTE, None)
    return found


def declared_shapes(
    declaration: Declaration, parts: Sequence[str], arguments: Mapping[str, Shape], function: str
) -> tuple[tuple[Shape, ...], Origins]:
    """The parts of the result ("key", "value"), and the conditions. Raises LineageError."""
    reader = _Reader(arguments, function)
    for name in ("key", "value"):
        if getattr(declaration, name) is not None and name not in parts:
            result = " and a ".join(parts)
            raise LineageError(f"the declared lineage of {function} has a {name}; its result is a {result}")
    shapes = tuple(reader.shape(getattr(declaration, name)) for name in parts)
    conditions = (deciding(reader.named(each), Use.CONDITIONAL) for each in declaration.conditions)
    return shapes, frozenset(each for some in conditions for each in some)


class _Reader:
    def __init__(self, arguments: Mapping[str, Shape], function: str) -> None:
        self._arguments, self._function = arguments, function

    def shape(self, declared: Declared | None) -> Shape:
        if declared is None:
            return Shape()
        if isinstance(declared, Mapping):
            fields = {name: self.shape(each) for name, each in declared.items() if name != REST}
            rest = united(map(self.named, _texts(declared[REST]))) if REST in declared else None
            return Shape(fields=fields, rest=rest)
        if isinstance(declared, Copied):
            return self.named(declared)
        origins = (changed(self.named(each).all_origins(), Use.TRANSFORMATION) for each in _texts(declared))
        return Shape(frozenset(each for some in origins for each in some))

    def named(self, text: str) -> Shape:
        """The shape of "value.price"."""
        argument, *path = text.split(".")
        found = self._arguments.get(argument)
        if found is None:
            allowed = ", ".join(self._arguments)
            raise LineageError(f"the declared lineage of {self._function} names {text!r}; its arguments are {allowed}")
        for each in path:
            found = found.child(each)
        return found


def _texts(declared: Any) -> Iterator[str]:
    yield from (declared,) if isinstance(declared, str) else declared
