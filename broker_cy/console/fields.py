"""Forms: what an act asks for, and how each value is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Looks at all values together; (name of a field, problem), or None if they agree.
Check = Callable[[Mapping[str, Any]], tuple[str, str] | None]


@dataclass(frozen=True)
class Field:
    """One value. `parse` converts what was typed, or raises a ValueError that says what is allowed.

    `hint` is shown in the empty field. With `choices`, the value must be one of these.
    """

    name: str
    label: str
    parse: Callable[[str], Any] = str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()

    def check(self, text: str) -> Any:
        """The value of `text`. Raises ValueError if it is not allowed."""
        if self.choices and text not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return self.parse(text)

    def problem(self, text: str) -> str:
        """What is wrong with `text`; empty if it is allowed."""
        try:
            self.check(text)
        except ValueError as error:
            return str(error)
        return ""


@dataclass(frozen=True)
class Checked:
    """What a form says: `values` by field name, complete where `problems` (also by field name) is empty."""

    values: Mapping[str, Any]
    problems: Mapping[str, str]


@dataclass(frozen=True)
class Form:
    """What has to be asked before an act can be planned."""

    title: str
    fields: Sequence[Field]
    note: str = ""
    verb: str = "Continue"
    check: Check | None = field(default=None, repr=False)

    def checked(self, texts: Mapping[str, str]) -> Checked:
        """Check what was typed, by field name; a field that is missing has its default."""
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for each in self.fields:
            try:
                values[each.name] = each.check(texts.get(each.name, each.value))
            except ValueError as error:
                problems[each.name] = str(error)
        if not problems and self.check is not None:
            found = self.check(values)
            if found is not None:
                problems[found[0]] = found[1]
        return Checked(values, problems)
