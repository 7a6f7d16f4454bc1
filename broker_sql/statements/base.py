"""The base of all statements with text and place; names that know their places; properties of WITH."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from broker_sql.errors import Location


class Name(str):
    """A name in its final case (upper case unless it was quoted), with its place. It equals the plain text."""

    __slots__ = ("location",)
    location: Location | None

    def __new__(cls, text: str, location: Location | None = None) -> Name:
        name = super().__new__(cls, text)
        name.location = location
        return name


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Base of all statements.

    `text` is as written, after variables were put in, without the semicolon. Comparisons of statements leave `text` and
    `location` out."""

    text: str = field(default="", compare=False)
    location: Location | None = field(default=None, compare=False)


# The value of a property: what its literal says. Java's TRUE and FALSE are bool, 1.5 is Decimal, 1e3 is float.
PropertyValue = str | int | bool | Decimal | float


@dataclass(frozen=True)
class Property:
    """A property of WITH. `name` is upper case if it was written without quotes."""

    name: str
    value: PropertyValue
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Properties:
    """The properties of WITH in their order. The parser refuses a name that stands twice."""

    entries: tuple[Property, ...] = ()

    def find(self, name: str) -> Property | None:
        """Return the property, whatever its case is."""
        return next((each for each in self.entries if each.name.upper() == name.upper()), None)

    def get(self, name: str) -> PropertyValue | None:
        found = self.find(name)
        return found.value if found else None

    def as_dict(self) -> dict[str, PropertyValue]:
        return {each.name: each.value for each in self.entries}

    def __iter__(self) -> Iterator[Property]:
        return iter(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)


NO_PROPERTIES = Properties()
