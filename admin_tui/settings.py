"""The console's own configuration, in the directory of the cluster file:

theme = "nord"
utc = true
readonly = false
alerts = "alerts.toml"

[keys]
"grid.down" = "down,j,ctrl+n"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_cy.client.clusters import default_path
from broker_cy.client.toml_file import Table, read
from broker_cy.client.toml_values import boolean, one_of, text

# Screens by their names in earlier releases.
_SCREENS = {
    "moves": "reassignments",
    "refusals": "denied-requests",
    "tokens": "delegation-tokens",
    "users": "scram-users",
}


@dataclass(frozen=True)
class Settings:
    """The file's settings, or the defaults. `alerts` is the path of the alert file."""

    theme: str = "textual-dark"
    utc: bool = False
    readonly: bool = False
    alerts: Path | None = None
    keys: Mapping[str, str] = field(default_factory=dict)


def default_settings_path(clusters: Path | None = None) -> Path:
    """Return the path of tui.toml in the directory of the cluster file, whether or not that exists."""
    return (clusters or default_path()).with_name("tui.toml")


def load_settings(path: Path) -> Settings:
    """The settings of the file at `path`. Raises ClientError, which names file, line and key, where it is invalid."""
    top = read(path)
    found = Settings(
        top.take("theme", _theme, Settings.theme),
        top.take("utc", boolean, False),
        top.take("readonly", boolean, False),
        # Relative to this file.
        top.take("alerts", lambda value: path.parent / Path(text(value)).expanduser(), None),
        _keys(top.table("keys")),
    )
    top.finish()
    return found


def _keys(table: Table) -> dict[str, str]:
    if not table.values:
        return {}
    from admin_tui.registry import binding_ids

    known = binding_ids()
    keys: dict[str, str] = {}
    for written, value in table.values.items():
        name = _current_id(written)
        if name not in known:
            near = ", ".join(sorted(each for each in known if each.split(".")[0] == name.split(".")[0])) or ", ".join(
                sorted(known)
            )
            raise table.error(written, f"is not known; allowed are {near}")
        if not isinstance(value, str) or not value.strip():
            raise table.error(written, f'{value!r}: keys separated by commas are expected, such as "j,down"')
        keys[name] = value
    return keys


def _current_id(name: str) -> str:
    """Return the id of a key binding that a file for an earlier release may name otherwise."""
    screen, dot, act = name.partition(".")
    return f"{_SCREENS.get(screen, screen)}{dot}{'reassignments' if act == 'moves' else act}"


def _theme(value: Any) -> str:
    from textual.theme import BUILTIN_THEMES

    return one_of(*sorted(BUILTIN_THEMES))(value)
