"""Definitions of settings, and the tables that they are read from.

A table is a text file with tabs between its columns; the first line names them. The columns of a definition are `name`,
`type`, `default` ("null", or "(required)" without a default), `valid` (validators), and optionally `documentation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from broker_cy.core.classes import dataclass
from broker_cy.core.config_def.types import parse, to_text
from broker_cy.core.config_def.validators import Validator, from_column
from broker_cy.core.configs import ConfigType


@dataclass(frozen=True)
class Definition:
    """One setting. `default` is the typed value or None; `required` is True if it has no default."""

    name: str
    type: ConfigType
    default: Any
    required: bool
    validator: Validator | None
    documentation: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, str], **more: Any) -> Self:
        """Return the definition of a row. `more` are the fields of a subclass. Raises ValueError for a wrong row."""
        name, config_type, text = row["name"], ConfigType[row["type"]], row["default"]
        required = text == "(required)"
        if required or text == "null":
            default = None
        elif config_type is ConfigType.LIST:
            default = parse(name, text.removeprefix("[").removesuffix("]"), config_type)
        else:
            default = parse(name, text, config_type)
        return cls(
            name=name,
            type=config_type,
            default=default,
            required=required,
            validator=from_column(row["valid"], config_type),
            documentation=row.get("documentation") or None,
            **more,
        )

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @cached_property
    def default_text(self) -> str | None:
        return to_text(self.default, self.type)

    def parse(self, text: str) -> Any:
        """Return the typed and validated value. Raises ConfigError with Kafka's message."""
        value = parse(self.name, text, self.type)
        if self.validator is not None:
            self.validator(self.name, value)
        if self.type is ConfigType.LIST:
            # Kafka drops duplicates with a warning; order is kept.
            return tuple(dict.fromkeys(value))
        return value


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, by the names of its columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header = lines[0].split("\t")
    return [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:]]
