"""Values of configuration tables (TOML), with errors that name the field and the allowed values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from broker_cy.client import toml_values
from broker_cy.client.errors import ClientError
from broker_cy.client.toml_file import unknown_key
from dashboard.security.roles import EVERYTHING, PATTERNS_MAX, Scope, check_pattern

# Creates the error for a reason; it adds the name of the file.
Refuse = Callable[[str], ClientError]
T = TypeVar("T")


class Table:
    """A table of a configuration file. `where` is its name in errors: users.anna, oidc or mask[0].

    Methods return the value of a field, or raise the ClientError that `refuse` creates from the reason.
    """

    def __init__(self, data: Any, where: str, refuse: Refuse, known: Collection[str]) -> None:
        self.where = where
        self.refuse = refuse
        if not isinstance(data, dict):
            raise refuse(f"{where}: {data!r} is not a table")
        self._data: Mapping[str, Any] = data
        for name in data:
            if name not in known:
                raise refuse(f"{where}.{name}: {unknown_key(name, known)}")

    def wrong(self, name: str, why: str) -> ClientError:
        """Return the error of a field."""
        return self.refuse(f"{self.where}.{name}: {why}")

    def missing(self, name: str) -> ClientError:
        return self.wrong(name, "is missing")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def _parsed(self, name: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(self._data[name])
        except ValueError as error:
            raise self.wrong(name, str(error)) from None

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty, without control characters; without a default the field is required."""
        if name not in self._data:
            if default is None:
                raise self.missing(name)
            return default
        found = self._parsed(name, toml_values.text)
        if not found.isprintable():
            raise self.wrong(name, "has control characters")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        return self._parsed(name, toml_values.boolean) if name in self._data else default

    def texts(self, name: str, default: tuple[str, ...], *, count_max: int = PATTERNS_MAX) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        if name not in self._data:
            return default
        found = self._parsed(name, toml_values.texts)
        if not all(found):
            raise self.wrong(name, "has an empty text")
        if len(found) > count_max:
            raise self.wrong(name, f"{len(found):,} entries; {count_max:,} are allowed")
        return found

    def patterns(self, name: str) -> tuple[str, ...]:
        """A list of patterns; everything by default."""
        found = self.texts(name, EVERYTHING)
        try:
            return tuple(check_pattern(each) for each in found)
        except ValueError as error:
            raise self.wrong(name, str(error)) from None

    def table(self, name: str) -> Mapping[str, Any]:
        value = self._data.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, f"{value!r} is not a table")
        return value

    def scope(self) -> Scope:
        """The fields clusters, topics, groups and unmasked."""
        return Scope(self.patterns("clusters"), self.patterns("topics"), self.patterns("groups"), self.flag("unmasked"))
