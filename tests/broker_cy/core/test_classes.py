"""Classes that behave like those of the standard library, which makes them more slowly."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar
from typing import NamedTuple as StandardTuple

import pytest

from broker_cy.core.classes import NamedTuple, dataclass

T = TypeVar("T")


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 0

    @property
    def total(self) -> int:
        return self.x + self.y


class Secret(NamedTuple):
    password: str

    def __repr__(self) -> str:
        return "hidden"

    def __eq__(self, other: object) -> bool:
        return False


class StandardPoint(StandardTuple):
    x: int
    y: int = 0


class Box(NamedTuple, Generic[T]):
    content: T


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    parts: list[int] = field(default_factory=list, compare=False)
    KIND: ClassVar[str] = "frozen"


@dataclasses.dataclass(frozen=True, slots=True)
class StandardFrozen:
    name: str
    parts: list[int] = field(default_factory=list, compare=False)
    KIND: ClassVar[str] = "frozen"


@dataclass(slots=True)
class Base:
    first: int = 1


@dataclass(slots=True)
class Derived(Base):
    second: str = "b"
    hidden: int = field(default=3, repr=False)
    made: int = field(init=False)

    def __post_init__(self) -> None:
        self.made = self.first * 2


@dataclasses.dataclass(slots=True)
class StandardBase:
    first: int = 1


@dataclasses.dataclass(slots=True)
class StandardDerived(StandardBase):
    second: str = "b"
    hidden: int = field(default=3, repr=False)
    made: int = field(init=False)

    def __post_init__(self) -> None:
        self.made = self.first * 2


def outcome(act: Callable[[], object]) -> object:
    """The result, or the kind of exception."""
    try:
        return act()
    except Exception as error:
        return type(error)


TUPLE_ACTS: list[Callable[[Any], object]] = [
    lambda made: tuple(made(1)),
    lambda made: made(y=5, x=4)._asdict(),
    lambda made: made(1)._replace(y=9)._asdict(),
    lambda made: made(1)._replace(z=9),
    lambda made: tuple(made._make([3, 4])),
    lambda made: made._make([3]),
    lambda made: made(),
    lambda made: made(1, 2, 3),
    lambda made: made(1, z=3),
    lambda made: repr(made(1)).partition("(")[2],
    lambda made: made(1) == (1, 0),
    lambda made: hash(made(1)),
    lambda made: (made._fields, made._field_defaults, made.__match_args__),
    lambda made: setattr(made(1), "x", 3),
    lambda made: setattr(made(1), "other", 3),
    lambda made: (made.x.__doc__, made.y.__doc__),
    lambda made: tuple(copy.deepcopy(made(1))),
    lambda made: tuple(pickle.loads(pickle.dumps(made(1)))),
    lambda made: made.__new__.__name__,
]


@pytest.mark.parametrize("number", range(len(TUPLE_ACTS)))
def test_named_tuples_behave_as_those_of_the_standard_library(number: int) -> None:
    """If this fails, code that works with a NamedTuple of Python breaks with ours."""
    act = TUPLE_ACTS[number]
    assert outcome(lambda: act(Point)) == outcome(lambda: act(StandardPoint))


def test_a_named_tuple_keeps_its_methods_its_text_and_its_parameters() -> None:
    """If this fails, a property of a NamedTuple is lost, or a generic one cannot be named with its parameter."""
    assert (Point(1, 2).total, Point.__doc__, Point.__name__, Point.__module__) == (3, "A place.", "Point", __name__)
    assert (repr(Secret("a")), Secret("a") == Secret("a")) == ("hidden", False)
    assert Box("a").content == "a"
    assert Box[int](3) == (3,)


def test_a_field_without_default_after_one_with_default_is_refused() -> None:
    """If this fails, a class whose arguments would be shifted is accepted."""
    with pytest.raises(TypeError, match="without a default"):
        exec("class Wrong(NamedTuple):\n    a: int = 1\n    b: int", {"NamedTuple": NamedTuple, "__name__": __name__})
    with pytest.raises(TypeError, match="non-default argument 'second'"):

        @dataclass
        class Wrong:
            first: int = 0
            second: int  # type: ignore[misc]


CLASS_ACTS: list[Callable[[Any, Any], object]] = [
    lambda frozen, derived: repr(frozen("a", [1])).partition("(")[2],
    lambda frozen, derived: repr(derived(2)).partition("(")[2],
    lambda frozen, derived: frozen("a", [1]) == frozen("a", [2]),
    lambda frozen, derived: frozen("a") == frozen("b"),
    lambda frozen, derived: frozen("a") == "a",
    lambda frozen, derived: frozen("a").__eq__("a"),
    lambda frozen, derived: derived(1) == derived(),
    lambda frozen, derived: hash(frozen("a")) == hash(frozen("a", [1])),
    # Sets of them are read in the same order.
    lambda frozen, derived: hash(frozen("a")),
    lambda frozen, derived: hash(derived(1)),
    lambda frozen, derived: setattr(frozen("a"), "name", "b"),
    lambda frozen, derived: delattr(frozen("a"), "name"),
    lambda frozen, derived: setattr(derived(), "other", 1),
    lambda frozen, derived: frozen("a").parts is frozen("a").parts,
    lambda frozen, derived: (frozen(), 1),
    lambda frozen, derived: frozen("a", bad=1),
    lambda frozen, derived: derived(1, "c", 4).made,
    lambda frozen, derived: dataclasses.asdict(derived(5)),
    lambda frozen, derived: dataclasses.replace(frozen("a", [1]), name="b").parts,
    lambda frozen, derived: [each.name for each in dataclasses.fields(derived)],
    lambda frozen, derived: (frozen.__match_args__, derived.__match_args__),
    lambda frozen, derived: (frozen.__slots__, derived.__slots__, frozen.KIND),
    lambda frozen, derived: copy.copy(frozen("a", [1])).parts,
    lambda frozen, derived: pickle.loads(pickle.dumps(frozen("a", [1]))).parts,
    lambda frozen, derived: dataclasses.is_dataclass(frozen),
]


@pytest.mark.parametrize("number", range(len(CLASS_ACTS)))
def test_dataclasses_behave_as_those_of_the_standard_library(number: int) -> None:
    """If this fails, code that works with a dataclass of Python breaks with ours."""
    act = CLASS_ACTS[number]
    ours, standard = outcome(lambda: act(Frozen, Derived)), outcome(lambda: act(StandardFrozen, StandardDerived))
    assert ours == standard


def test_methods_of_a_class_come_before_those_that_are_made() -> None:
    """If this fails, a class prints or compares in another way than it says, and a secret may appear in a log."""

    @dataclass(frozen=True)
    class Own:
        a: int
        b: int = 0

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and other.a == self.a

        def __hash__(self) -> int:
            return self.a

    assert (repr(Own(1)), Own(1, 2) == Own(1, 3), hash(Own(7))) == ("own", True, 7)

    @dataclass(eq=False, repr=False)
    class Bare:
        a: int = 0

    assert Bare() != Bare()
    assert repr(Bare()).startswith("<")
    assert len({Bare(), Bare()}) == 2


def test_a_plain_subclass_of_a_frozen_class_may_have_more_attributes() -> None:
    """If this fails, a subclass that caches a value cannot be used."""

    @dataclass(frozen=True)
    class Settings:
        a: int

    class Cached(Settings):
        pass

    cached = Cached(1)
    cached.b = 2  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        cached.a = 3  # type: ignore[misc]
    del cached.b  # type: ignore[attr-defined]
    assert not hasattr(cached, "b")
