"""Forms: the values that an act needs, and how each value is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from broker_cy.client.quantities import is_zoneless
from broker_cy.core.classes import dataclass

# Checks all values together; returns (name of a field, problem), or None if they are consistent.
Check = Callable[[Mapping[str, Any]], tuple[str, str] | None]


@dataclass(frozen=True)
class Field:
    """One value. `parse` converts the text that was typed, or raises a ValueError that names the allowed values.

    `hint` is shown in the empty field. With `choices`, the value must be one of them. The content of a secret field is
    not shown. A long field has several lines. `is_time`: the text may be a time, or a time after @; with `time_if`
    (name, value), only if the field of that name has that value.
    """

    name: str
    label: str
    parse: Callable[[str], Any] = str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    is_secret: bool = False
    is_time: bool = False
    time_if: tuple[str, str] | None = None
    is_long: bool = False

    def check(self, text: str) -> Any:
        """Return the value of `text`. Raises ValueError if it is not allowed."""
        if self.choices and text not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return self.parse(text)

    def lacks_zone(self, text: str, texts: Mapping[str, str]) -> bool:
        """Return whether `text` is a time without a zone; `texts` are those of the whole form."""
        if not self.is_time or (self.time_if is not None and texts.get(self.time_if[0]) != self.time_if[1]):
            return False
        return is_zoneless(text.strip().removeprefix("s@").removeprefix("@"))

    def problem(self, text: str) -> str:
        """Return the problem of `text`; empty if it is allowed."""
        try:
            self.check(text)
        except ValueError as error:
            return str(error)
        return ""


@dataclass(frozen=True)
class Checked:
    """The contents of a form: `values` by field name, which are complete if `problems` (also by field name) is
    empty.
    """

    values: Mapping[str, Any]
    problems: Mapping[str, str]


@dataclass(frozen=True)
class Form:
    """The values that must be entered before an act can be planned."""

    title: str
    fields: Sequence[Field]
    note: str = ""
    verb: str = "Continue"
    check: Check | None = field(default=None, repr=False)

    def checked(self, texts: Mapping[str, str], *, needs_zones: bool = False) -> Checked:
        """Check the texts that were typed, by field name; a missing field has its default.

        `needs_zones`: they were typed on another machine, whose zone is not known here, so that times need one.
        """
        whole = {each.name: each.value for each in self.fields} | dict(texts)
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for each in self.fields:
            text = whole[each.name]
            try:
                if needs_zones and each.lacks_zone(text, whole):
                    raise ValueError(f"{text!r} has no time zone: add Z or an offset such as +02:00")
                values[each.name] = each.check(text)
            except ValueError as error:
                problems[each.name] = str(error)
        if not problems and self.check is not None:
            found = self.check(values)
            if found is not None:
                problems[found[0]] = found[1]
        return Checked(values, problems)
