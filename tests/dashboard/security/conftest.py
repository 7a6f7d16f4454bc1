"""Dashboards for the tests, with and without users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.security import Role, Scope
from tests.dashboard.security.kit import Dashboard, Make, add_user


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make dashboards, which are closed with the test."""
    made: list[Dashboard] = []

    def build(**changes: Any) -> Dashboard:
        made.append(Dashboard(tmp_path, **changes))
        return made[-1]

    yield build
    for each in made:
        each.security.close()


@pytest.fixture
def users_path(tmp_path: Path) -> Path:
    """A users file with anna (admin), ben (operator of orders*) and eve (viewer)."""
    path = tmp_path / "users.toml"
    add_user(path, "anna", Role.ADMIN)
    add_user(path, "ben", Role.OPERATOR, Scope(topics=("orders*",), groups=("billing*",)))
    add_user(path, "eve")
    return path


@pytest.fixture
def dashboard(make: Make, users_path: Path) -> Dashboard:
    """A dashboard on a loopback address whose users must log in."""
    return make(users_path=users_path)
