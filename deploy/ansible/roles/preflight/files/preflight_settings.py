"""The check of `broker_settings`: each name must be a setting with an effect, according to the tables in the wheel.

The broker checks values and everything else when the role writes its file, with brokercy.config.strict.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from preflight_inventory import nearest
from preflight_words import Findings, Host, truth

TABLES = ("broker_cy/config/broker_configs.tsv", "broker_cy/config/own_configs.tsv")
STRICT = "brokercy.config.strict"
LISTENER = "listener.name."
PROVIDER = "config.providers."
# Settings that the authorizer reads itself.
WITHOUT_A_ROW = ("super.users", "allow.everyone.if.no.acl.found")
EFFECTIVE, INERT = "effective", "inert"


def check_settings(directory: Path, version: str, hosts: list[Host], findings: Findings) -> None:
    tables = tables_of(directory, version)
    if not tables:
        return
    for host in hosts:
        settings = host.variables.get("broker_settings")
        if not host.broker or not isinstance(settings, Mapping) or not is_strict(settings):
            continue
        for name, value in settings.items():
            if value is not None and (fault := fault_of(str(name), tables)):
                findings.fail("settings", f"broker_settings: {fault}", host.name)


def is_strict(settings: Mapping[str, object]) -> bool:
    value = settings.get(STRICT)
    return value is None or truth(value)


def tables_of(directory: Path, version: str) -> dict[str, str]:
    """The release's use of each setting; empty without a wheel, which another check reports, or with a wheel that is
    older than the tables.
    """
    wheel = next(iter(sorted(directory.glob(f"broker_cy-{version.replace('-', '_')}-*.whl"))), None)
    found: dict[str, str] = {}
    try:
        if wheel is not None:
            with zipfile.ZipFile(wheel) as archive:
                for table in TABLES:
                    rows = io.StringIO(archive.read(table).decode())
                    for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE):
                        found[row["name"]] = row["support"]
    except (OSError, zipfile.BadZipFile, KeyError):
        return {}
    return found


def fault_of(name: str, tables: Mapping[str, str]) -> str:
    """The error of a setting's name; empty if it is valid, or if its value decides."""
    if name in WITHOUT_A_ROW or name.startswith(PROVIDER):
        return ""
    base = base_of(name, tables)
    support = tables.get(base)
    if support is None:
        near = nearest(base, {known for known, what in tables.items() if what != INERT})
        return f"{name} is no setting of the broker: " + (f"did you mean {near}?" if near else "remove it.")
    if support == INERT:
        return f"{name} has no effect: remove it, or add {STRICT}: false."
    return ""


def base_of(name: str, tables: Mapping[str, str]) -> str:
    """The setting without the prefixes of a listener and a mechanism."""
    if name in tables or not name.startswith(LISTENER):
        return name
    base = name.removeprefix(LISTENER).partition(".")[2]
    return base if base in tables else base.partition(".")[2] or base
