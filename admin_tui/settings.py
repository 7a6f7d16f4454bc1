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

_TYPES = {"theme": str, "utc": bool, "readonly": bool, "alerts": str, "keys": dict}
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
    data = top.values
    for name, value in data.items():
        if name not in _TYPES:
            raise top.error(name, f"is not known; allowed are {', '.join(_TYPES)}")
        if not isinstance(value, _TYPES[name]):
            raise top.error(name, f"{value!r}: {_TYPES[name].__name__} is expected")
    keys = _keys(top, data.get("keys", {}))
    theme = data.get("theme", Settings.theme)
    _check_theme(top, theme)
    alerts = data.get("alerts")
    return Settings(
        theme,
        data.get("utc", False),
        data.get("readonly", False),
        # Relative to this file.
        None if alerts is None else path.parent / Path(alerts).expanduser(),
        keys,
    )


def _keys(top: Table, table: Mapping[str, Any]) -> dict[str, str]:
    if not table:
        return {}
    from admin_tui.registry import binding_ids

    known = binding_ids()
    keys: dict[str, str] = {}
    for written, value in table.items():
        name = _current_id(written)
        if name not in known:
            near = ", ".join(sorted(each for each in known if each.split(".")[0] == name.split(".")[0])) or ", ".join(
                sorted(known)
            )
            raise top.error(f"keys.{written}", f"is not known; allowed are {near}")
        if not isinstance(value, str) or not value.strip():
            raise top.error(f"keys.{written}", f'{value!r}: keys separated by commas are expected, such as "j,down"')
        keys[name] = value
    return keys


def _current_id(name: str) -> str:
    """Return the id of a key binding that a file for an earlier release may name otherwise."""
    screen, dot, act = name.partition(".")
    return f"{_SCREENS.get(screen, screen)}{dot}{'reassignments' if act == 'moves' else act}"


def _check_theme(top: Table, theme: str) -> None:
    from textual.theme import BUILTIN_THEMES

    if theme not in BUILTIN_THEMES:
        raise top.error("theme", f"{theme!r}: the themes are {', '.join(sorted(BUILTIN_THEMES))}")
