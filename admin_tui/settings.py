"""The console's own configuration, in the directory of the cluster file:

theme = "nord"
utc = true
readonly = false
alerts = "alerts.toml"

[keys]
"grid.down" = "down,j,ctrl+n"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_cy.client.clusters import default_path
from broker_cy.client.errors import ClientError, Failure

_TYPES = {"theme": str, "utc": bool, "readonly": bool, "alerts": str, "keys": dict}


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
    """The settings of the file at `path`. Raises ClientError, which names file and field, where it is invalid."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(path, f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(path, f"is not TOML: {error}") from None
    for name, value in data.items():
        if name not in _TYPES:
            raise _invalid(path, f"{name} is not known; allowed are {', '.join(_TYPES)}")
        if not isinstance(value, _TYPES[name]):
            raise _invalid(path, f"{name} = {value!r}: {_TYPES[name].__name__} is expected")
    keys = _keys(path, data.get("keys", {}))
    theme = data.get("theme", Settings.theme)
    _check_theme(path, theme)
    alerts = data.get("alerts")
    return Settings(
        theme,
        data.get("utc", False),
        data.get("readonly", False),
        # Relative to this file.
        None if alerts is None else path.parent / Path(alerts).expanduser(),
        keys,
    )


def _keys(path: Path, table: Mapping[str, Any]) -> dict[str, str]:
    if not table:
        return {}
    from admin_tui.registry import binding_ids

    known = binding_ids()
    for name, value in table.items():
        if name not in known:
            near = ", ".join(sorted(each for each in known if each.split(".")[0] == name.split(".")[0])) or ", ".join(
                sorted(known)
            )
            raise _invalid(path, f"keys.{name} is not known; allowed are {near}")
        if not isinstance(value, str) or not value.strip():
            raise _invalid(path, f'keys.{name} = {value!r}: keys separated by commas are expected, such as "j,down"')
    return dict(table)


def _check_theme(path: Path, theme: str) -> None:
    from textual.theme import BUILTIN_THEMES

    if theme not in BUILTIN_THEMES:
        raise _invalid(path, f"theme = {theme!r}: the themes are {', '.join(sorted(BUILTIN_THEMES))}")


def _invalid(path: Path, reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what=str(path))
