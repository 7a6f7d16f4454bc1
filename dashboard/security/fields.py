"""Values of configuration tables (TOML), with errors that name the field and the allowed values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from broker_cy.client.errors import ClientError
from dashboard.security.roles import EVERYTHING, PATTERNS_MAX, Scope, check_pattern

# Creates the error for a reason; it adds the name of the file.
Refuse = Callable[[str], ClientError]
_SHOWN_CHARACTERS_MAX = 80


class Table:
    """A table of a configuration file. `where` is its name in errors: users.anna, oidc or mask[0].

    Methods return the value of a field, or raise the ClientError that `refuse` creates from the reason.
    """

    def __init__(self, data: Any, where: str, refuse: Refuse, known: Collection[str]) -> None:
        self.where = where
        self.refuse = refuse
        if not isinstance(data, dict):
            raise refuse(f"{where} must be a table")
        self._data: Mapping[str, Any] = data
        for name in data:
            if name not in known:
                raise refuse(f"{where}.{name} is not a known field; the fields are {', '.join(known)}")

    def wrong(self, name: str, expected: str) -> ClientError:
        """Return the error of a field whose value is not as expected."""
        value = repr(self._data.get(name))
        shown = value if len(value) <= _SHOWN_CHARACTERS_MAX else value[:_SHOWN_CHARACTERS_MAX] + "..."
        return self.refuse(f"{self.where}.{name} = {shown}: expected {expected}")

    def missing(self, name: str) -> ClientError:
        return self.refuse(f"{self.where}.{name} is missing")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; without a default the field is required."""
        if name not in self._data:
            if default is None:
                raise self.missing(name)
            return default
        value = self._data[name]
        if not isinstance(value, str) or not value or not value.isprintable():
            raise self.wrong(name, "a text that is not empty, without control characters")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._data.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def texts(self, name: str, default: tuple[str, ...], *, count_max: int = PATTERNS_MAX) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        value = self._data.get(name, list(default))
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise self.wrong(name, "a list of texts")
        if len(value) > count_max:
            raise self.refuse(f"{self.where}.{name} has {len(value):,} entries: {count_max:,} are allowed")
        return tuple(value)

    def patterns(self, name: str) -> tuple[str, ...]:
        """A list of patterns; everything by default."""
        found = self.texts(name, EVERYTHING)
        try:
            return tuple(check_pattern(each) for each in found)
        except ValueError as error:
            raise self.refuse(f"{self.where}.{name}: {error}") from None

    def table(self, name: str) -> Mapping[str, Any]:
        value = self._data.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, "a table")
        return value

    def scope(self) -> Scope:
        """The fields clusters, topics, groups and unmasked."""
        return Scope(self.patterns("clusters"), self.patterns("topics"), self.patterns("groups"), self.flag("unmasked"))
