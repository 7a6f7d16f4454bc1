"""The table of settings (settings.tsv), and the place of a setting in mm2.properties: its scope and its inner name.

| scope | given as |
|---|---|
| file | `NAME` |
| flow | `NAME` for all flows, `SOURCE->TARGET.NAME` |
| worker | `TARGET.NAME`; some also as `NAME`, see merged.WORKER_PREFIXES |
| connection | `NAME` for all clusters, `CLUSTER.NAME`, `CLUSTER.consumer.NAME`, `SOURCE->TARGET.source.cluster.NAME` |
| consumer, producer, admin | `CLUSTER.consumer.NAME`, `SOURCE->TARGET.consumer.NAME`, `...source.consumer.NAME` |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker_cy.client.security import PREFIXES as SECURITY_PREFIXES
from broker_cy.core.config_def.scoped import ScopedSetting, read_table
from broker_mirror.merged import CONNECTION_NAMES, WORKER_PREFIXES, Role, Side
from broker_mirror.transforms.configuration import FAMILIES

OVERRIDE: Final = "producer.override."
_TABLE: Final = Path(__file__).with_name("settings.tsv")


class Scope(Enum):
    """The part of the program that a setting is about."""

    FILE = "file"
    FLOW = "flow"
    WORKER = "worker"
    CONNECTION = "connection"
    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


class Setting(ScopedSetting):
    """A row of the table."""

    def read(self, name: str, text: str) -> Any:
        """Return the value that the file gives under the full `name`. Raises ConfigError, which names it."""
        return replace(self, name=name).parse(text)


class Place(NamedTuple):
    """A possible meaning of a name in the file. It has no effect unless `counts`, as in MirrorMaker 2."""

    scope: Scope
    inner: str
    counts: bool = True


ROLES: Final = {Role.CONSUMER: Scope.CONSUMER, Role.PRODUCER: Scope.PRODUCER, Role.ADMIN: Scope.ADMIN}


@cache
def table() -> dict[tuple[Scope, str], Setting]:
    """Return the settings by scope and name."""
    return read_table(_TABLE, Setting, Scope)


@cache
def _families() -> dict[Scope, tuple[Setting, ...]]:
    found: dict[Scope, tuple[Setting, ...]] = {}
    for (scope, name), setting in table().items():
        if name.endswith("*"):
            found[scope] = (*found.get(scope, ()), setting)
    return found


@cache
def flow_names() -> frozenset[str]:
    """Return the names that MirrorMaker 2's connectors have, for merged.connector_properties."""
    return frozenset(name for scope, name in table() if scope is Scope.FLOW and not name.endswith("*"))


def setting_of(scope: Scope, inner: str) -> Setting | None:
    """Return the setting of a name in a scope; None if it is unknown. Those of connections have no definition."""
    found = table().get((scope, inner))
    if found is not None:
        return found
    return next((each for each in _families().get(scope, ()) if inner.startswith(each.name[:-1])), None)


def is_known(place: Place) -> bool:
    """Whether the scope of a place has such a name."""
    if place.scope is Scope.CONNECTION:
        return place.inner in CONNECTION_NAMES
    return setting_of(place.scope, place.inner) is not None


def is_unsupported_security(place: Place) -> bool:
    """Whether it protects a connection in a way that is not known here."""
    return (
        place.scope is Scope.CONNECTION
        and place.inner.startswith(SECURITY_PREFIXES)
        and place.inner not in CONNECTION_NAMES
    )


def places(name: str, clusters: Sequence[str]) -> list[Place]:
    """Return the possible meanings of a name in the file, in the order in which they are tried."""
    found = list(_of_top(name))
    for alias in clusters:
        if name.startswith(f"{alias}."):
            found += _of_cluster(name[len(alias) + 1 :])
    source, arrow, rest = name.partition("->")
    if arrow and source in clusters:
        for alias in clusters:
            if alias != source and rest.startswith(f"{alias}."):
                found += _of_pair(rest[len(alias) + 1 :])
    return sorted(found, key=lambda place: not place.counts)


def _of_top(name: str) -> Iterator[Place]:
    yield Place(Scope.FILE, name)
    yield Place(Scope.FLOW, name, not name.startswith(FAMILIES))
    yield Place(Scope.WORKER, name, name.startswith(WORKER_PREFIXES))
    yield Place(Scope.CONNECTION, name)
    yield from _of_clients(name, counts=False)
    for side in Side:
        if name.startswith(f"{side.value}."):
            yield from _of_clients(name.removeprefix(f"{side.value}."), counts=False)
    for scope in ROLES.values():
        yield Place(scope, name, False)


def _of_cluster(inner: str) -> Iterator[Place]:
    yield Place(Scope.CONNECTION, inner)
    yield Place(Scope.WORKER, inner)
    yield from _of_clients(inner)
    yield Place(Scope.FLOW, inner, False)
    for scope in ROLES.values():
        yield Place(scope, inner, False)


def _of_pair(inner: str) -> Iterator[Place]:
    yield Place(Scope.FLOW, inner)
    yield from _of_clients(inner)
    if inner.startswith(OVERRIDE):
        yield Place(Scope.PRODUCER, inner.removeprefix(OVERRIDE))
    for side in Side:
        if inner.startswith(f"{side.value}."):
            yield from _of_clients(inner.removeprefix(f"{side.value}."))
        if inner.startswith(f"{side.value}.cluster."):
            yield Place(Scope.CONNECTION, inner.removeprefix(f"{side.value}.cluster."))
    yield Place(Scope.WORKER, inner, False)
    yield Place(Scope.CONNECTION, inner, False)


def _of_clients(inner: str, *, counts: bool = True) -> Iterator[Place]:
    for role, scope in ROLES.items():
        if inner.startswith(f"{role.value}."):
            yield Place(scope, inner.removeprefix(f"{role.value}."), counts)
            yield Place(Scope.CONNECTION, inner.removeprefix(f"{role.value}."), counts)
