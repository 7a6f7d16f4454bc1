"""Definitions of settings that a program reads from its own table."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.core.config_def.definitions import Definition, read_rows
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.configs import ConfigType

TABLE = (
    "name\ttype\tdefault\tvalid\tdocumentation\n"
    "listen\tLIST\t[127.0.0.1:8081]\tany non-empty value\tAddresses.\n"
    "mode\tSTRING\tread\t[read, write]\t\n"
    "secret\tPASSWORD\t(required)\t\t\n"
)


def test_a_table_of_settings(tmp_path: Path) -> None:
    """If this fails, a program without the broker's settings cannot define its own."""
    file = tmp_path / "configs.tsv"
    file.write_text(TABLE)
    listen, mode, secret = map(Definition.from_row, read_rows(file))
    assert (listen.type, listen.default, listen.default_text) == (
        ConfigType.LIST,
        ("127.0.0.1:8081",),
        "127.0.0.1:8081",
    )
    assert listen.parse("a:1, b:2,a:1") == ("a:1", "b:2")
    assert listen.documentation == "Addresses."
    assert mode.documentation is None
    with pytest.raises(ConfigError, match="String must be one of: read, write"):
        mode.parse("other")
    assert (secret.required, secret.default, secret.is_sensitive) == (True, None, True)


def test_a_wrong_table_is_an_error(tmp_path: Path) -> None:
    """If this fails, a typing error in a table changes a setting without a message."""
    file = tmp_path / "configs.tsv"
    file.write_text("name\ttype\tdefault\tvalid\nmode\tSTRING\tread\n")
    with pytest.raises(ValueError, match="zip"):
        read_rows(file)
    with pytest.raises(ValueError, match="no validator for 'read or write'"):
        Definition.from_row({"name": "mode", "type": "STRING", "default": "read", "valid": "read or write"})
