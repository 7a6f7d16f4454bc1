"""Tables of settings with scopes: a name may have another meaning for another part of a program.

Beside the columns of a definition, a table has `scope` (several with commas between them) and `support`.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TypeVar

from broker_cy.core.classes import dataclass
from broker_cy.core.config_def.definitions import Definition, read_rows


class Support(Enum):
    """Whether a setting has an effect. REFUSED ones would change records, or protect something."""

    EFFECTIVE = "effective"
    NO_EFFECT = "no effect"
    REFUSED = "refused"


@dataclass(frozen=True)
class ScopedSetting(Definition):
    """A row of a table. A name that ends with `*` stands for all names with that prefix."""

    support: Support = Support.EFFECTIVE


_Scope = TypeVar("_Scope", bound=Enum)
_Setting = TypeVar("_Setting", bound=ScopedSetting)


def read_table(path: Path, setting: type[_Setting], scope: type[_Scope]) -> dict[tuple[_Scope, str], _Setting]:
    """Return the settings by scope and name. Raises ValueError for a wrong row."""
    found: dict[tuple[_Scope, str], _Setting] = {}
    for row in read_rows(path):
        made = setting.from_row(row, support=Support(row["support"]))
        for each in row["scope"].split(","):
            found[scope(each), row["name"]] = made
    return found
