"""`NamedTuple` and `dataclass` for modules that a start imports. A type checker sees those of the standard library, and
so does a reader: their classes behave alike.

The standard ones compile Python text for each class: for `__new__` or each method, and for each annotation of a
NamedTuple. A start makes 400 such classes, which took 80 ms and 2 MB. Here a class gets functions that all classes
share, and only `__new__` and `__init__` are its own: a copy of the code for classes of that shape, with other names.

Differences: `__init__` has no annotations, a class without a docstring has none, and annotations of a NamedTuple stay
text. A class that is `frozen` cannot derive from a standard one that is, nor the reverse.
"""

from __future__ import annotations

import dataclasses

# `_tuplegetter` is the property of a field that the standard library uses: in C, and known to the interpreter.
from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, FrozenInstanceError
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Generic

_DOCUMENTED: list[str] = []


# --- NamedTuple


class _NamedTupleMeta(type):
    """Makes a subclass of tuple of a class statement with the base NamedTuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body[field] for field in fields if field in body}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without a default follows one with a default")
        new = FunctionType(_new_code(len(fields)).replace(co_varnames=("_cls", *fields)), _NEW_GLOBALS, "__new__")
        new.__defaults__ = tuple(defaults.values()) or None
        # Methods of the class itself come before these.
        body = _TUPLE_METHODS | body
        body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__new__": new}
        body |= {field: _tuplegetter(index, _documented(index)) for index, field in enumerate(fields)}
        if Generic in bases:
            # Otherwise that of tuple is found first.
            body["__class_getitem__"] = classmethod(Generic.__class_getitem__.__func__)  # type: ignore[attr-defined]
        return type(name, tuple(tuple if base is _NamedTuple else base for base in bases), body)


class _NamedTuple(metaclass=_NamedTupleMeta):
    """The base in a class statement; the class itself derives from tuple instead."""


_NEW_GLOBALS: dict[str, Any] = {"__builtins__": {}, "__name__": __name__, "_tuple_new": tuple.__new__}


@cache
def _new_code(fields: int) -> CodeType:
    """The code of `__new__` for so many fields."""
    names = "".join(f"a{number}, " for number in range(fields))
    code: CodeType = eval(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))").__code__
    return code.replace(co_name="__new__", co_qualname="NamedTuple.__new__")


def _documented(index: int) -> str:
    while len(_DOCUMENTED) <= index:
        _DOCUMENTED.append(f"Alias for field number {len(_DOCUMENTED)}")
    return _DOCUMENTED[index]


def _make(cls: Any, iterable: Iterable[Any]) -> Any:
    result = tuple.__new__(cls, iterable)
    if len(result) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(result)}")
    return result


def _replace(self: Any, /, **changes: Any) -> Any:
    result = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return result


def _tuple_repr(self: Any) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{self.__class__.__name__}({shown})"


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


_TUPLE_METHODS: dict[str, Any] = {
    "__slots__": (),
    "_make": classmethod(_make),
    "_replace": _replace,
    "__repr__": _tuple_repr,
    "_asdict": _asdict,
    "__getnewargs__": lambda self: tuple(self),
}


# --- dataclass


class _Made:
    """The default of a parameter whose value each instance makes."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def _dataclass(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True
) -> Any:
    """`dataclasses.dataclass`, with those of its parameters that this project uses."""
    if cls is None:
        return lambda given: _dataclass(given, frozen=frozen, slots=slots, eq=eq, repr=repr)
    own = cls.__dict__
    methods: dict[str, Any] = {}
    if repr:
        methods["__repr__"] = _shown
    if eq:
        hashed = own.get("__hash__")
        if not frozen:
            methods["__hash__"] = hashed
    # A docstring keeps the standard library from composing one, for which it loads and runs `inspect`.
    undocumented = own.get("__doc__") is None
    if undocumented:
        cls.__doc__ = cls.__name__
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    if undocumented:
        made.__doc__ = None
    fields = dataclasses.fields(made)
    if eq:
        compared = _compared(tuple(field.name for field in fields if field.compare))
        methods["__eq__"] = _equality(compared)
        if frozen:
            methods["__hash__"] = hashed or (lambda self: hash(compared(self)))
    if frozen:
        methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_removal}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    methods["__init__"] = _initializer(made, fields, frozen)
    for name, method in methods.items():
        if name == "__hash__" or name not in own:
            setattr(made, name, method)
    return made


def _compared(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of the fields as a tuple."""
    if not names:
        return lambda _: ()
    values: Callable[[Any], Any] = attrgetter(*names)
    if len(names) > 1:
        return values
    return lambda self: (values(self),)


def _equality(compared: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    return __eq__


@recursive_repr()
def _shown(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _fields(self: Any) -> Iterator[Field[Any]]:
    return iter(dataclasses.fields(self))


def _refuse_change(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_removal(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, act: str) -> None:
    """As in the standard library, a plain subclass of a frozen class may have further attributes."""
    if name in self.__dataclass_fields__ or "__dataclass_fields__" in type(self).__dict__:
        raise FrozenInstanceError(f"cannot {act} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in _fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for field, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_INIT_GLOBALS: dict[str, Any] = {
    "__builtins__": {"type": type},
    "__name__": __name__,
    "_set": object.__setattr__,
    "_Made": _Made,
}


def _initializer(cls: Any, fields: tuple[Field[Any], ...], frozen: bool) -> FunctionType:
    """`__init__`: parameters in the order of the fields. A field with `init=False` is set by `__post_init__`."""
    given = [field for field in fields if field.init]
    made = tuple(field.default_factory is not dataclasses.MISSING for field in given)
    code = _init_code(made, frozen, hasattr(cls, "__post_init__"))
    names = tuple(field.name for field in given)
    new = dict(zip((f"a{number}" for number in range(len(names))), names, strict=True))
    code = code.replace(
        co_varnames=("self", *names),
        co_names=tuple(new.get(name, name) for name in code.co_names),
        co_consts=tuple(new.get(const, const) if isinstance(const, str) else const for const in code.co_consts),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    function = FunctionType(code, _INIT_GLOBALS, "__init__")
    defaults: list[Any] = []
    for field in given:
        if field.default_factory is not dataclasses.MISSING:
            defaults.append(_Made(field.default_factory))
        elif field.default is not dataclasses.MISSING:
            defaults.append(field.default)
        elif defaults:
            raise TypeError(f"non-default argument {field.name!r} follows default argument")
    function.__defaults__ = tuple(defaults) or None
    return function


@cache
def _init_code(made: tuple[bool, ...], frozen: bool, post_init: bool) -> CodeType:
    """The code of `__init__` for so many fields; those that are `made` have a default that each instance makes."""
    lines = ["def __init__(" + ", ".join(["self", *(f"a{number}" for number in range(len(made)))]) + "):", " pass"]
    for number, is_made in enumerate(made):
        value = f"a{number}.make() if type(a{number}) is _Made else a{number}" if is_made else f"a{number}"
        lines.append(f" _set(self, 'a{number}', {value})" if frozen else f" self.a{number} = {value}")
    if post_init:
        lines.append(" self.__post_init__()")
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    code: CodeType = namespace["__init__"].__code__
    return code


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = _NamedTuple
    dataclass = _dataclass
