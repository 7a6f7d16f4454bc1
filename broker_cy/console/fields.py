"""Fields of a form: what is typed, and how it is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """One value. `parse` makes it of what was typed, or raises ValueError, which says what is allowed.

    `hint` stands in the empty field. `choices`: it is one of these, and up and down go through them.
    """

    name: str
    label: str
    parse: Callable[[str], Any] = str
    value: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()

    def check(self, text: str) -> Any:
        """The value; ValueError where it is none."""
        if self.choices and text not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return self.parse(text)
