"""The settings of an application: those of Kafka Streams 4.3.1, of the clients below it, and of Confluent's serdes.

settings.tsv has each setting with its type, default and allowed values, and what becomes of it: it has an effect; or it
has none here, and a warning says so; or it is refused, as it would change results or protect something.

    NAME                                            a setting of Kafka Streams, of a client or of a serde
    consumer.NAME, producer.NAME, admin.NAME        of one kind of clients; main.consumer.NAME wins over consumer.NAME
    topic.NAME, client.tag.NAME                     of internal topics, and of the process

Values are texts, as in a file, or Python's: numbers, booleans, lists, serdes, functions.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker_cy.client.security import NAMES as SECURITY_NAMES
from broker_cy.client.security import PREFIXES as SECURITY_PREFIXES
from broker_cy.core.config_def import providers
from broker_cy.core.config_def.scoped import ScopedSetting, Support, read_table
from broker_cy.core.config_def.types import ConfigError, Password
from broker_cy.core.configs import ConfigType

TOPIC_PREFIX: Final = "topic."
TAG_PREFIX: Final = "client.tag."
BOOTSTRAP: Final = "bootstrap.servers"
WARNED_MAX: Final = 1_000
"""Warnings that a process remembers, to give each one once."""
_TABLE: Final = Path(__file__).with_name("settings.tsv")
_LOG = logging.getLogger("broker_streams")


class Scope(Enum):
    """The part of the program that a setting is about."""

    STREAMS = "streams"
    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"
    REGISTRY = "registry"


# The prefixes of settings of clients, the longer ones first; those of restore and global consumers are read alike.
_PREFIXES: Final = {
    "main.consumer.": Scope.CONSUMER,
    "restore.consumer.": Scope.CONSUMER,
    "global.consumer.": Scope.CONSUMER,
    "consumer.": Scope.CONSUMER,
    "producer.": Scope.PRODUCER,
    "admin.": Scope.ADMIN,
}
_IDLE_PREFIXES: Final = ("restore.consumer.", "global.consumer.")


class Setting(ScopedSetting):
    """A row of the table."""

    def read(self, name: str, given: Any) -> Any:
        """The typed value of what is given under the full `name`. Raises ConfigError, which names it."""
        if self.type is ConfigType.CLASS and not isinstance(given, str):
            return given
        if isinstance(given, list | tuple | set | frozenset):
            given = ",".join(map(str, given))
        text = str(given).lower() if isinstance(given, bool) else str(given)
        return replace(self, name=name).parse(text)


class OfRegistry(NamedTuple):
    """The settings of serdes that were given: with their types, and as the texts that a client of a registry reads."""

    values: Mapping[str, Any]
    texts: Mapping[str, str]


class Found:
    """The settings of one application."""

    def __init__(self) -> None:
        self._given: dict[tuple[Scope, str], Any] = {}
        self.topic_config: dict[str, str] = {}
        self.client_tags: dict[str, str] = {}
        self.of_registry = OfRegistry({}, {})
        self.warnings: tuple[str, ...] = ()

    def get(self, name: str, scope: Scope = Scope.STREAMS) -> Any:
        """The value of a setting, its default if it is not given."""
        return self._given.get((scope, name), table()[scope, name].default)

    def given(self, *names: str) -> Any:
        """The value of the first one of several names that was given; None: none was."""
        return next((self._given[Scope.STREAMS, name] for name in names if (Scope.STREAMS, name) in self._given), None)


@cache
def table() -> dict[tuple[Scope, str], Setting]:
    """Return the settings by scope and name."""
    return read_table(_TABLE, Setting, Scope)


@cache
def _families() -> tuple[tuple[Scope, str, Setting], ...]:
    return tuple((scope, name[:-1], each) for (scope, name), each in table().items() if name.endswith("*"))


def setting_of(scope: Scope, name: str) -> Setting | None:
    """Return the setting of a name in a scope; None if it is unknown."""
    found = table().get((scope, name))
    if found is not None:
        return found
    return next((each for place, begin, each in _families() if place is scope and name.startswith(begin)), None)


def resolved(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the values of config providers in place of their variables. Raises ConfigError."""
    if providers.NAMES not in config:
        return dict(config)
    of_providers = {
        name: str(each) for name, each in config.items() if name == providers.NAMES or name.startswith(providers.PREFIX)
    }
    known = providers.Providers(of_providers)
    for message in known.problems.values():
        raise ConfigError(message)
    found = {}
    for name, each in config.items():
        if name in of_providers:
            continue
        try:
            found[name] = known.resolve(each) if isinstance(each, str) else each
        except providers.Unresolved as error:
            raise ConfigError(f"{name}: {error}", name) from None
    return found


def read(config: Mapping[str, Any]) -> Found:
    """Return the settings of a configuration; a value of None is none. Raises ConfigError, a ValueError, which names
    the setting, its value and what is allowed.
    """
    found = Found()
    # From less to more exact prefixes: main.consumer.NAME wins over consumer.NAME, and that over NAME.
    given = sorted(resolved(config).items(), key=lambda item: _rank(item[0]))
    warnings = [text for name, value in given if value is not None and (text := _take(found, name, value)) is not None]
    found.warnings = tuple(warnings)
    return found


def _rank(name: str) -> int:
    if name.startswith("main.consumer."):
        return 2
    return 1 if name.startswith(tuple(_PREFIXES)) else 0


def _take(found: Found, name: str, value: Any) -> str | None:
    """Keep one setting. Return a warning; None if it has an effect. Raises ConfigError."""
    for prefix, kept in ((TOPIC_PREFIX, found.topic_config), (TAG_PREFIX, found.client_tags)):
        if name.startswith(prefix):
            kept[name.removeprefix(prefix)] = str(value)
            return None
    if name in SECURITY_NAMES:
        return None
    if name.startswith(SECURITY_PREFIXES):
        raise ConfigError(f"{name} protects connections in a way that is not known here", name)
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    if prefix:
        return _take_of_client(found, prefix, name.removeprefix(prefix), value)
    scopes = [scope for scope in Scope if setting_of(scope, name) is not None]
    if not scopes:
        return _unknown(name, [each for _, each in table()])
    warnings = [_keep(found, scope, name, name, value) for scope in scopes]
    # A name that has an effect in one scope needs no warning about the others.
    return None if None in warnings else warnings[0]


def _take_of_client(found: Found, prefix: str, inner: str, value: Any) -> str | None:
    name = prefix + inner
    if inner in SECURITY_NAMES or inner.startswith(SECURITY_PREFIXES) or inner == BOOTSTRAP:
        raise ConfigError(f"{name}: all clients of an application have the same connections; write {inner}", name)
    scope = _PREFIXES[prefix]
    if setting_of(scope, inner) is None:
        return _unknown(name, [prefix + each for place, each in table() if place is scope])
    if prefix in _IDLE_PREFIXES:
        return f"{name} has no effect: stores are read like all inputs; write consumer.{inner}"
    return _keep(found, scope, inner, name, value)


def _keep(found: Found, scope: Scope, inner: str, name: str, value: Any) -> str | None:
    setting = setting_of(scope, inner)
    assert setting is not None
    if setting.support is Support.REFUSED:
        raise ConfigError(f"{name} {setting.documentation}", name)
    if setting.support is Support.NO_EFFECT:
        return f"{name} has no effect" + (f": {setting.documentation}" if setting.documentation else "")
    typed = setting.read(name, value)
    if scope is Scope.REGISTRY:
        values, texts = dict(found.of_registry.values), dict(found.of_registry.texts)
        values[inner] = typed
        texts[inner] = typed.value if isinstance(typed, Password) else str(value).strip()
        found.of_registry = OfRegistry(values, texts)
    found._given[scope, inner] = typed
    return None


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, [each for each in known if not each.endswith("*")], 1, 0.8)
    return f"{name} is no known setting, and has no effect" + (f"; is {close[0]} meant?" if close else "")


_warned: set[str] = set()


def warn(found: Found) -> None:
    """Log the warnings, each one once in a process."""
    for text in found.warnings:
        if text not in _warned and len(_warned) < WARNED_MAX:
            _warned.add(text)
            _LOG.warning("%s", text)


@cache
def _offset_resets() -> Setting:
    return table()[Scope.CONSUMER, "auto.offset.reset"]


def checked_reset(what: str, given: str) -> str:
    """Return where reading begins: earliest, latest, none, or by_duration: and an ISO duration. Raises ConfigError,
    which names `what`.
    """
    found: str = _offset_resets().read(what, given)
    return found
