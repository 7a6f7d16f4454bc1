"""Values that stand for shapes in a user's function, and note how the function uses them.

`Traced` behaves like a record, list, text or number as far as Python lets it. A use that needs a plain value (`int()`,
`len()`, a text in an f-string) gets a made-up one. Texts hold a mark that `Run.shape_of` finds again. The columns of
the others count for each constant that the function returns. A comparison has the outcome that the path of this run
takes (paths.py).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from broker_streams.plan.lineage.columns import Use
from broker_streams.plan.lineage.shapes import NOTHING, Origins, Shape, changed, deciding, united

DECISIONS_MAX: Final = 64
"""Comparisons in one run: a loop that goes on while a traced value is true would have no end."""
NESTING_MAX: Final = 8
"""The deepest result that is looked into."""
ELEMENTS: Final = "[]"
"""The step from a list to its elements in a place."""
FALSY: Final = Shape(constant="null", mark="falsy")
# From the private area of Unicode, which texts of users do not have.
_MARK: Final = re.compile("\ue0f0(\\d+)\ue0f1")
# Methods that put their arguments into the list, set or record they are called on.
_ADDING: Final = frozenset({"append", "add", "extend", "insert", "update", "setdefault"})
Place = tuple[str, ...]


class TooLong(BaseException):
    """A run has more decisions than DECISIONS_MAX. No handler of the user's function shall catch it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """The assumptions of a run. `decisions` are the outcomes of the first comparisons; further ones are True. Values of
    `absent` places are None. `known` are fields that records are said to have; an iteration has so many `elements`.
    """

    decisions: tuple[bool, ...] = ()
    absent: frozenset[Place] = frozenset()
    known: tuple[str, ...] = ()
    elements: int = 1


class Run:
    """One run of a function on one path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.decisions = list(path.decisions)
        self.decided = 0
        self.conditions: Origins = frozenset()
        # Places whose values the function used, for runs in which they are None.
        self.places: dict[Place, Shape] = {}
        # Why the function cannot be traced: "" if it can.
        self.reason = ""
        # The columns that the function got as plain values, and the texts that it got.
        self._escaped: Origins = frozenset()
        self._texts: list[Shape] = []
        self._found_texts: set[int] = set()

    def value(self, place: Place, shape: Shape) -> Any:
        """The value at a place: a Traced, or None."""
        self.places[place] = shape
        return None if place in self.path.absent else Traced(self, place, shape)

    def decide(self, shape: Shape) -> bool:
        """The outcome of a comparison."""
        if self.decided >= DECISIONS_MAX:
            raise TooLong
        if self.decided == len(self.decisions):
            self.decisions.append(True)
        self.conditions |= deciding(shape, Use.CONDITIONAL)
        self.decided += 1
        return self.decisions[self.decided - 1]

    def escape(self, shape: Shape) -> None:
        """Note that the function gets a plain value that stands for this shape."""
        self._escaped |= changed(shape.all_origins(), Use.TRANSFORMATION)

    def text(self, shape: Shape) -> str:
        """A text that `shape_of` recognizes, also within another text."""
        self._texts.append(shape)
        return f"\ue0f0{len(self._texts) - 1}\ue0f1"

    def give_up(self, reason: str) -> None:
        self.reason = self.reason or reason

    def result(self, value: Any) -> Shape:
        """The shape of the function's result. Plain values may be made of those that the function got."""
        found = self.shape_of(value)
        lost = self._escaped
        for at, shape in enumerate(self._texts):
            if at not in self._found_texts:
                lost |= changed(shape.all_origins(), Use.TRANSFORMATION)
        return _constants_using(found, lost) if lost else found

    def shape_of(self, value: Any, depth: int = 0) -> Shape:
        if type(value) is Traced:
            return shape_in(value)
        if depth > NESTING_MAX:
            self.give_up(f"a value is nested more than {NESTING_MAX} deep")
            return NOTHING
        if isinstance(value, str) and (marks := _MARK.findall(value)):
            self._found_texts.update(map(int, marks))
            return united(self._texts[int(each)].derived() for each in marks)
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return _constant(value)
        if isinstance(value, Mapping):
            return self._record(value.items(), depth)
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self._record(value._asdict().items(), depth)
        if isinstance(value, list | tuple | set | frozenset):
            return united(self.shape_of(each, depth + 1) for each in value) if value else _constant(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = ((each.name, getattr(value, each.name, None)) for each in dataclasses.fields(value))
            return self._record(fields, depth)
        if hasattr(value, "__dict__") and not callable(value) and type(value).__module__ != "builtins":
            return self._record(vars(value).items(), depth)
        return _constant(value)

    def _record(self, items: Iterable[tuple[Any, Any]], depth: int) -> Shape:
        fields: dict[str, Shape] = {}
        rests: list[Shape] = []
        for name, value in items:
            found = self.shape_of(value, depth + 1)
            if type(name) is Rest:
                rests.append(found)
            elif is_plain_name(name):
                fields[str(name)] = found
            else:
                rests.append(united((found, self.shape_of(name, depth + 1).derived())))
        if not fields and not rests:
            return _constant({})
        return Shape(fields=fields, rest=united(rests) if rests else None).simple()


class Rest(str):
    """A key that stands for all fields of a traced record. Each is equal to itself only."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__


def is_plain_name(name: Any) -> bool:
    """Whether a key is no traced value, and not made of one."""
    return type(name) not in (Traced, Rest) and not (isinstance(name, str) and _MARK.search(name))


def _constant(value: Any) -> Shape:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = None
    # The mark tells constants apart whose JSON is not known; a huge one is cut.
    return Shape(constant=text, mark=f"{type(value).__name__} {value!r}"[:200] if text is None else "")


def _constants_using(shape: Shape, lost: Origins) -> Shape:
    """The same shape, whose constants (but None) are made of these columns."""
    if shape.is_record:
        fields = {name: _constants_using(each, lost) for name, each in shape.fields.items()}
        rest = None if shape.rest is None else _constants_using(shape.rest, lost)
        return Shape(shape.origins, fields, rest, shape.is_opaque)
    is_made = not shape.origins and shape.constant != "null"
    return Shape(lost, is_opaque=shape.is_opaque) if is_made else shape


def shape_in(traced: Any) -> Shape:
    """The shape that a Traced stands for."""
    found: Shape = object.__getattribute__(traced, "_shape")
    return found


class Traced:
    """See the module. It has few public names of its own: each name may be a field or a method of the value."""

    __slots__ = ("_method", "_owner", "_place", "_run", "_shape")

    def __init__(self, run: Run, place: Place, shape: Shape, owner: Traced | None = None, method: str = "") -> None:
        """`owner`: the record whose field this is. `method`: the name, if it may be a method of the owner."""
        given = {"run": run, "place": place, "shape": shape, "owner": owner, "method": method}
        for name, value in given.items():
            object.__setattr__(self, f"_{name}", value)

    # ---- fields, elements and calls ----

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _field(self, name, may_be_method=True)

    def __getitem__(self, name: Any) -> Any:
        if type(name) is Traced:
            return _derived(self, name)
        if type(name) is str:
            return _field(self, name)
        # All fields, or an element of a list, which shares the columns of the list.
        return Traced(_run(self), (*_place(self), ELEMENTS), shape_in(self))

    def __call__(self, *given: Any, **named: Any) -> Any:
        method, owner = object.__getattribute__(self, "_method"), _owner(self)
        if not method or owner is None:
            return _derived(self, *given, *named.values())
        _run(self).places.pop(_place(self), None)
        return _called(owner, method, given, named)

    def __iter__(self) -> Iterator[Any]:
        """One element, which stands for all; more if the function unpacks them."""
        for _ in range(_run(self).path.elements):
            yield Traced(_run(self), (*_place(self), ELEMENTS), shape_in(self))

    def keys(self) -> list[str]:
        """For `**record` and dict(record)."""
        return [Rest("*"), *_run(self).path.known]

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)

    def __setitem__(self, name: Any, value: Any) -> None:
        _set(self, name, value)

    def __delitem__(self, name: Any) -> None:
        """The field is no longer there: its column stays among those of the others."""

    def __or__(self, other: Any) -> Any:
        return _merged(self, self, other)

    def __ror__(self, other: Any) -> Any:
        return _merged(self, other, self)

    # ---- plain values ----

    def __bool__(self) -> bool:
        if _run(self).decide(shape_in(self)):
            return True
        # The value is None, 0 or empty on this path: `row and row["name"]` returns no column of the row then.
        object.__setattr__(self, "_shape", FALSY)
        return False

    def __contains__(self, item: Any) -> bool:
        return _run(self).decide(united((shape_in(self), _run(self).shape_of(item))))

    def __hash__(self) -> int:
        _run(self).give_up("it looks a value up in a set or dict")
        return id(self)

    def __str__(self) -> str:
        return _run(self).text(shape_in(self))

    __repr__ = __str__

    def __format__(self, how: str) -> str:
        return str(self)

    def __len__(self) -> int:
        _run(self).escape(shape_in(self))
        return 1

    def __int__(self) -> int:
        return len(self)

    __index__ = __int__

    def __float__(self) -> float:
        return float(len(self))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    @property  # type: ignore[misc]  # mypy knows no property of this name
    def __class__(self) -> type:
        """isinstance(value, str) asks for it."""
        _run(self).give_up("it asks for the type of a value")
        return Traced


def _run(of: Traced) -> Run:
    found: Run = object.__getattribute__(of, "_run")
    return found


def _place(of: Traced) -> Place:
    found: Place = object.__getattribute__(of, "_place")
    return found


def _owner(of: Traced) -> Traced | None:
    found: Traced | None = object.__getattribute__(of, "_owner")
    return found


def _field(of: Traced, name: str, *, may_be_method: bool = False) -> Any:
    run, place, shape = _run(of), (*_place(of), name), shape_in(of).child(name)
    run.places[place] = shape
    return None if place in run.path.absent else Traced(run, place, shape, of, name if may_be_method else "")


def _called(owner: Traced, method: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a method of a record, list, text or number."""
    run = _run(owner)
    if method in ("get", "pop") and given and type(given[0]) is str:
        found = _field(owner, given[0])
        # In the run without this value.
        return found if found is not None or len(given) == 1 else given[1]
    if method == "copy" and not given:
        return Traced(run, _place(owner), shape_in(owner))
    if method in ("items", "values") and not given:
        rest, value = Rest("*"), Traced(run, (*_place(owner), ELEMENTS), shape_in(owner))
        return [(rest, value)] if method == "items" else [value]
    if method in _ADDING:
        return _added(owner, method, given, named)
    return _derived(owner, *given, *named.values())


def _added(owner: Traced, method: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    run, shape = _run(owner), shape_in(owner)
    new = [run.shape_of(each) for each in given]
    if method == "update":
        fields = {name: run.shape_of(each) for name, each in named.items()}
        for each in new:
            fields |= each.fields
        rests = [shape, *(each.rest or each for each in new if not each.fields or each.rest is not None)]
        _replace(owner, Shape(fields=fields, rest=united(rests)))
        return None
    if method == "setdefault" and len(given) == 2 and type(given[0]) is str:
        _replace(owner, shape.with_field(given[0], united((shape.child(given[0]), new[1]))))
        return _field(owner, given[0])
    _replace(owner, united((shape, *new[-1:])))
    return None


def _set(of: Traced, name: Any, value: Any) -> None:
    """`record[name] = value`: later uses of this record see the field."""
    new = _run(of).shape_of(value)
    shape = shape_in(of)
    if type(name) is str and is_plain_name(name):
        _replace(of, shape.with_field(name, new))
    else:
        _replace(of, united((shape, Shape(rest=new.derived()))))


def _replace(of: Traced, shape: Shape) -> None:
    """Give a record another shape, and the record that it is a field of."""
    object.__setattr__(of, "_shape", shape)
    owner = _owner(of)
    if owner is not None:
        _replace(owner, shape_in(owner).with_field(_place(of)[-1], shape))


def _merged(of: Traced, one: Any, other: Any) -> Traced:
    """`one | other`: the fields of the other one replace those of the first."""
    run = _run(of)
    first, second = run.shape_of(one), run.shape_of(other)
    if second.fields and second.rest is None:
        return Traced(run, (), Shape(fields=second.fields, rest=first))
    if first.is_record or second.is_record:
        return Traced(run, (), united((first, second)))
    return _derived(of, one if one is not of else other)


def _derived(of: Traced, *others: Any) -> Traced:
    """A value that is computed from several."""
    run = _run(of)
    shapes = [shape_in(of), *(run.shape_of(each) for each in others)]
    origins = frozenset(each for shape in shapes for each in changed(shape.all_origins(), Use.TRANSFORMATION))
    return Traced(run, (), Shape(origins, is_opaque=any(each.any_opaque() for each in shapes)))


def _computed(of: Traced, *others: Any) -> Any:
    """A number or text that is computed from several. Without one of them there is none."""
    if any(each is None for each in others):
        raise TypeError("unsupported operand type: NoneType")
    return _derived(of, *others)


def _install(names: Iterable[str], call: Callable[..., Any]) -> None:
    for name in names:
        setattr(Traced, f"__{name}__", call)


_OPERATORS: Final = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "xor",
)
_install((*_OPERATORS, *(f"r{each}" for each in _OPERATORS), "lt", "le", "gt", "ge"), _computed)
_install(("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "reversed"), _derived)
_install(("eq", "ne"), _derived)
