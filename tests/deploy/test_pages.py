"""The deployment pages: variables in docs/deploy.md are variables of roles, with the roles' defaults, and
test_documents.py runs each command.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.lab import REPOSITORY
from tests.deploy.test_documents import PAGES, commands

ROLES = REPOSITORY / "deploy" / "ansible" / "roles"
PAGE = REPOSITORY / "docs" / "deploy.md"
# Options of playbooks, described in their first lines.
OF_PLAYBOOKS = ("migrate_", "broker_add_", "broker_decommission", "broker_replace", "broker_rollback", "broker_joins")


def _specified() -> dict[str, dict[str, Any]]:
    """The options of all roles."""
    found: dict[str, dict[str, Any]] = {}
    for path in ROLES.glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= entry.get("options") or {}
    return found


def _names(text: str) -> list[str]:
    roles = "|".join(sorted(path.name for path in ROLES.iterdir()))
    return sorted(set(re.findall(rf"\b(?!broker_cy\b)(?:{roles}|migrate)_[a-z_0-9]+\b(?!\.yml)", text)))


@pytest.mark.parametrize("name", _names(PAGE.read_text()))
def test_documented_variables_exist(name: str) -> None:
    """If this fails, a new user sets a variable that no role knows."""
    if name.startswith(OF_PLAYBOOKS):
        playbooks = REPOSITORY / "deploy" / "ansible" / "playbooks"
        assert any(name in path.read_text() for path in playbooks.rglob("*.yml"))
    else:
        assert name in _specified()


def _table() -> list[tuple[str, str]]:
    """Variables of the table with a default of one word."""
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", PAGE.read_text().partition("## Variables")[2], re.M)
    found = []
    for names, defaults in rows:
        variables, values = re.findall(r"`([a-z_0-9]+)`", names), defaults.split(", ")
        if len(variables) == len(values):
            found += list(zip(variables, values, strict=True))
    return found


def test_documented_defaults_are_those_of_the_roles() -> None:
    """If this fails, the table of variables shows wrong defaults."""
    defaults: dict[str, Any] = {}
    for path in sorted(Path(ROLES).glob("*/defaults/main.yml")):
        defaults |= yaml.safe_load(path.read_text()) or {}
    compared = 0
    for name, shown in _table():
        value = defaults.get(name)
        if not isinstance(value, int | float | str) or "{{" in str(value) or value == "":
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert text == shown, name
        compared += 1
    assert compared > 15


def test_every_line_is_understood() -> None:
    """If this fails, a page shows a command that no test runs."""
    for page, text in PAGES.items():
        for heading in re.findall(r"^## (.*)$", text, re.M):
            if "Migrating from" not in heading:
                commands(page, heading)
