"""MirrorMaker 2's own file, mm2.properties, read as it is.

A setting that is unknown, malformed or refused stops the program with a message that names it. Settings without an
effect here, such as those of Kafka Connect's workers, are named in warnings; so are settings at a place at which
MirrorMaker 2 does not read them. docs/mirror-settings.md lists all of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.config_def import providers
from broker_cy.core.config_def.scoped import Support
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_mirror.merged import PROVIDERS
from broker_mirror.settings import Scope, is_known, is_unsupported_security, places, setting_of, table
from broker_mirror.transforms.configuration import FAMILIES

CLUSTERS: Final = "clusters"
CLUSTERS_MAX: Final = 50
"""Each pair of clusters may be a flow: 2,450 flows."""
_PAIR: Final = re.compile(r"(.+?)->(.+?)\.")
_ALIAS: Final = re.compile(r"[^\s,]+")


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """`properties` are the settings of the file by their full names, with the values of config providers; some are
    secrets. `warnings` name settings without an effect.
    """

    where: str
    clusters: tuple[str, ...]
    properties: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load_config(path: Path) -> MirrorConfig:
    """Return the settings of a file. Raises ClientError, which names the file and the setting."""
    try:
        return parse_config(read_properties_file(path), str(path))
    except ConfigError as error:
        text = str(error).removeprefix(f"{path}: ")
        raise ClientError(Failure.INVALID, text, what=str(path)) from None


def parse_config(given: Mapping[str, str], where: str) -> MirrorConfig:
    """Return the settings of `given`. Raises ConfigError, which names the setting."""
    properties = _resolved(given)
    clusters = _clusters(properties)
    warnings = []
    for name, text in properties.items():
        if (warning := _checked(name, text, clusters)) is not None:
            warnings.append(f"{where}: {warning}")
    return MirrorConfig(where, clusters, properties, tuple(warnings))


def _resolved(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the values of config providers. Raises ConfigError."""
    known = providers.Providers(given)
    for message in known.problems.values():
        raise ConfigError(message)
    found = {}
    for name, text in given.items():
        if name == PROVIDERS or name.startswith(providers.PREFIX):
            found[name] = text
            continue
        try:
            found[name] = known.resolve(text)
        except providers.Unresolved as error:
            raise ConfigError(f"{name}: {error}", name) from None
    return found


def _clusters(properties: Mapping[str, str]) -> tuple[str, ...]:
    if CLUSTERS not in properties:
        raise ConfigError(f"{CLUSTERS} is not set: list the aliases of the clusters, such as {CLUSTERS}=A,B", CLUSTERS)
    found: tuple[str, ...] = table()[Scope.FILE, CLUSTERS].parse(properties[CLUSTERS])
    if len(found) > CLUSTERS_MAX:
        raise ConfigError(f"{CLUSTERS} has {len(found)} aliases; at most {CLUSTERS_MAX} are allowed", CLUSTERS)
    for alias in found:
        if not _ALIAS.fullmatch(alias) or "->" in alias:
            raise ConfigError(f"{CLUSTERS} has {alias!r}; an alias has neither blanks nor ->", CLUSTERS)
    return found


def _checked(name: str, text: str, clusters: tuple[str, ...]) -> str | None:
    """Check one setting. Return a warning; None if it has an effect. Raises ConfigError."""
    found = places(name, clusters)
    place = next((each for each in found if is_known(each)), None)
    if place is None:
        if any(map(is_unsupported_security, found)):
            raise ConfigError(f"{name} protects connections in a way that is not known here", name)
        raise ConfigError(_unknown(name, clusters, [each.inner for each in found]), name)
    if not place.counts:
        return f"{name} has no effect at this place, as in MirrorMaker 2: write {_better(place.scope, place.inner)}"
    if place.scope is Scope.CONNECTION:
        return None
    setting = setting_of(place.scope, place.inner)
    assert setting is not None
    if setting.support is Support.REFUSED:
        raise ConfigError(f"{name} {setting.documentation}", name)
    if setting.support is Support.NO_EFFECT:
        return f"{name} has no effect" + (f", {setting.documentation}" if setting.documentation else "")
    setting.read(name, text)
    return None


def _better(scope: Scope, inner: str) -> str:
    match scope:
        case Scope.FLOW:
            return f"SOURCE->TARGET.{inner}" if inner.startswith(FAMILIES) else f"{inner} or SOURCE->TARGET.{inner}"
        case Scope.WORKER:
            return f"TARGET.{inner}"
        case Scope.CONNECTION:
            return f"{inner} or CLUSTER.{inner}"
        case _:
            return f"CLUSTER.{scope.value}.{inner}"


def _unknown(name: str, clusters: tuple[str, ...], inner: list[str]) -> str:
    if (pair := _PAIR.match(name)) is not None:
        for alias in pair.groups():
            if alias not in clusters:
                return f"{name} names the cluster {alias}, but {CLUSTERS} has only {', '.join(clusters)}"
        if pair[1] == pair[2]:
            return f"{name} names a flow from a cluster to itself"
    known = {each for _, each in table() if not each.endswith("*")}
    near = next((close[0] for each in inner if (close := difflib.get_close_matches(each, known, 1, 0.8))), None)
    return f"{name} is no known setting" + (f"; is {near} meant?" if near else "")
