"""The broker's settings, typed, by Kafka's names: `config["log.segment.bytes"]`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from broker_cy.config import dynamic, findings, startup, tls
from broker_cy.config.authorizer import authorizer_settings
from broker_cy.config.checks import check_values, connections_per_ip_overrides
from broker_cy.config.definitions import BROKER, BROKER_INTERNAL, BROKER_QUOTAS, Support
from broker_cy.config.listeners import Listener
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def import providers
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.logs import Event, facts

log = logging.getLogger(__name__)

# Called with the names whose values changed, after the new values are in place.
ChangeListener = Callable[[frozenset[str]], None]

# Stands for the settings of stores, which have the prefixes of listeners, where names of settings are given.
TLS_STORES = "listener.name.*.ssl"

_DEFAULTS = startup.built_in_values()
_NONE: Mapping[str, str] = {}
_NO_PLACES: Mapping[str, startup.Place] = {}
STRICT = "brokercy.config.strict"


class Hidden(NamedTuple):
    """The names of settings with values of config providers, which are not shown, by level."""

    static: frozenset[str] = frozenset()
    default: frozenset[str] = frozenset()
    broker: frozenset[str] = frozenset()


class BrokerConfig(Mapping[str, Any]):
    """Every broker setting with its current value. Values change only in `apply_dynamic`.

    Units are those of the names: `.ms`, `.bytes`, `.minutes`. A setting without a value is None (null in Kafka). If
    settings replace each other (log.roll.ms and log.roll.hours), `topic.broker_defaults` has the one in effect.
    """

    def __init__(self, static: Mapping[str, str]) -> None:
        """Use `from_properties`, which checks more."""
        self.static: dict[str, str] = dict(static)
        self.dynamic_broker: Mapping[str, str] = _NONE
        self.dynamic_default: Mapping[str, str] = _NONE
        self.hidden = Hidden()
        self._values = _typed(static)
        # Settings that have no effect yet, to be logged once at the start.
        self.warnings: list[Event] = []
        self._change_listeners: list[tuple[ChangeListener, frozenset[str]]] = []
        # Derived values, valid until the next change, by a key that their user chooses (see `topic`).
        self.derived: dict[Any, Any] = {}
        self.network = startup.network(self._values, static)
        # These come from the file: a change needs a restart, except in the key stores of listeners.
        self.sasl = startup.sasl_settings(self._values, static, self.network)
        self.tls = startup.tls_settings(self._values, static, self.network)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], places: Mapping[str, startup.Place] = _NO_PLACES
    ) -> BrokerConfig:
        """Settings by Kafka's names, as in server.properties. Raises ConfigError, with one line, for invalid and
        refused settings; `warnings` has events for settings without an effect. `places` has the place of each.
        """
        found = findings.examine(properties, places)
        found.refuse(found.of(findings.Kind.REFUSED))
        config = cls._of(found)
        if config[STRICT]:
            found.refuse(found.found)
        config.warnings = found.events()
        return config

    @classmethod
    def _of(cls, found: findings.Findings) -> BrokerConfig:
        """Settings without a refused one. Adds the settings of TLS that no listener has to the findings. Raises
        ConfigError.
        """
        try:
            config = cls(found.texts)
            check_values(config)
            startup.check_served(config)
            authorizer_settings(config)
        except ConfigError as error:
            raise found.located(error) from None
        config.hidden = Hidden(static=found.hidden)
        found.found.extend(
            findings.Finding(name, findings.Kind.INERT, "")
            for name in tls.without_effect(found.texts, config.tls.names)
        )
        return config

    @classmethod
    def problems(cls, properties: Mapping[str, str], places: Mapping[str, startup.Place]) -> list[str]:
        """Everything that a start with `brokercy.config.strict` would refuse, one line each. Raises ConfigError."""
        found = findings.examine(properties, places)
        lines = []
        if not found.of(findings.Kind.REFUSED):
            try:
                cls._of(found)
            except ConfigError as error:
                lines.append(str(error))
        return [f"{found.at(each.setting)}{each.sentence}" for each in found.found] + lines

    # Mapping

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # Values that need interpretation

    @property
    def token_secret_key(self) -> str | None:
        """The secret key of delegation tokens; None without delegation tokens."""
        found = self["delegation.token.secret.key"]
        return (found.value or None) if found is not None else None

    @property
    def node_id(self) -> int:
        return int(self._values["node.id"])

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """Return the data directories (log.dirs, otherwise log.dir)."""
        return tuple(Path(text) for text in startup.data_directories(self._values))

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return the listeners for clients, without those of the controller."""
        return self.network.listeners

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """Return the advertised listeners, at most one for each of `listeners`. An empty host stands for this machine's
        name, and port 0 for the port that was bound.
        """
        return self.network.advertised

    @property
    def is_broker(self) -> bool:
        return "broker" in self._values["process.roles"]

    @property
    def is_controller(self) -> bool:
        return "controller" in self._values["process.roles"]

    @property
    def begins_cluster(self) -> bool:
        """Whether this node may begin a cluster of its own: it is a controller, and names no other one."""
        if not self.is_controller:
            return False
        voters, servers = self.quorum_voters, self._values["controller.quorum.bootstrap.servers"]
        if voters:
            return len(voters) == 1
        ports = {one.port for one in (*self.network.controller_listeners, *self.network.advertised_controllers)}
        # Port 0 may become any port.
        is_own = not ports or 0 in ports or any(server.rpartition(":")[2] in map(str, ports) for server in servers)
        return not servers or (len(servers) == 1 and is_own)

    @property
    def quorum_voters(self) -> tuple[startup.QuorumVoter, ...]:
        """Return the static voters of the metadata quorum (controller.quorum.voters), in the order of the file."""
        return startup.quorum_voters(self._values["controller.quorum.voters"])

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """Return the maximum number of connections by address or host name."""
        return connections_per_ip_overrides(self._values["max.connections.per.ip.overrides"])

    def of_listener(self, name: str, listener: str) -> Any:
        """Return the value of a setting for a listener: with its prefix, otherwise that of the broker."""
        prefixed = f"{startup.LISTENER_PREFIX}{listener.lower()}.{name}"
        for level in (self.dynamic_broker, self.dynamic_default, self.static):
            if prefixed in level:
                return BROKER[name].parse(level[prefixed])
        return self._values[name]

    # Dynamic settings

    def on_change(self, listener: ChangeListener, *names: str) -> None:
        """Call `listener` after a dynamic change of any of `names` (of any setting if none is named)."""
        self._change_listeners.append((listener, frozenset(names)))

    def effective(self, dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]) -> BrokerConfig:
        """Return a new configuration with these dynamic settings, which have no variables, and the same file; this one
        does not change. Raises ConfigError if a value is invalid or settings contradict each other.
        """
        found = BrokerConfig(self.static)
        found._set(dynamic_broker, dynamic_default)
        check_values(found)
        return found

    def apply_dynamic(self, dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]) -> frozenset[str]:
        """Apply the settings of the metadata log. Returns the names whose values changed, whose listeners were called.

        Stored settings that cannot be used are logged and ignored. If the rest contradicts itself, nothing changes.
        The variables of config providers are resolved here: files and the environment of this node count.
        """
        given = self._providers(dynamic_default, dynamic_broker)
        broker, hidden_broker, events = dynamic.usable(dynamic_broker, given, per_broker=True)
        default, hidden_default, more = dynamic.usable(dynamic_default, given, per_broker=False)
        for event in events + more:
            event.log(log, logging.ERROR)
        hidden = Hidden(self.hidden.static, hidden_default, hidden_broker)
        if broker == self.dynamic_broker and default == self.dynamic_default:
            self.hidden = hidden
            return frozenset()
        try:
            self.effective(broker, default)
        except ConfigError as error:
            reason = findings.hide(str(error), given.values)
            log.error("could not apply dynamic settings", extra=facts(reason=reason))
            return frozenset()
        self.hidden = hidden
        old, new = {**self.dynamic_default, **self.dynamic_broker}, {**default, **broker}
        self._report_inert(old, new, hidden_default | hidden_broker)
        before, tls_before = self._values, self.tls
        self._set(broker, default)
        changed = frozenset(name for name, value in self._values.items() if before[name] != value)
        # One of a listener is reported as the setting without its prefix.
        changed |= {
            name.removeprefix(startup.LISTENER_PREFIX).partition(".")[2]
            for name in {*old, *new}
            if name.startswith(startup.LISTENER_PREFIX)
            and startup.is_of_listener(name)
            and old.get(name) != new.get(name)
        }
        if self.tls != tls_before:
            changed |= {TLS_STORES}
        if changed:
            log.info("dynamic settings changed", extra=facts(settings=",".join(sorted(changed))))
            for listener, names in self._change_listeners:
                if not names or names & changed:
                    listener(changed)
        return changed

    def validate_dynamic(self, properties: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
        """Return the resulting settings, after a check whether `properties` may become all dynamic settings of this
        broker, or of all brokers. Raises ConfigError with Kafka's message (RequirementError for Kafka's `requirement
        failed`).
        """
        given = self._providers(self.dynamic_default, self.dynamic_broker, properties)
        try:
            return self._validated(dynamic.resolved(properties, given), per_broker=per_broker)
        except ConfigError as error:
            message = findings.hide(str(error), given.values)
            raise error if message == str(error) else type(error)(message) from None

    def usable_dynamic(self, properties: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return those of the stored settings of a level that this node can apply, as they are stored."""
        given = self._providers(self.dynamic_default, self.dynamic_broker, properties)
        usable, _, _ = dynamic.usable(properties, given, per_broker=per_broker)
        return {name: properties[name] for name in usable}

    def resolve(self, text: str) -> str:
        """Return a stored value with the variables of config providers replaced. Raises ConfigError."""
        return self._providers(self.dynamic_default, self.dynamic_broker).resolve(text) if "${" in text else text

    def _providers(self, *levels: Mapping[str, str]) -> providers.Providers:
        """The providers of the file and of these levels."""
        merged = dict(self.static)
        for level in levels:
            merged.update(level)
        return providers.Providers(merged, limits=self.static)

    def _validated(self, properties: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
        dynamic.check_names(properties, per_broker=per_broker)
        for name, text in properties.items():
            if tls.is_of_a_store(name):
                tls.check_changeable(name, self.tls)
            setting = startup.setting_of(name)
            if setting is not None and setting.support is Support.REFUSED and setting.parse(text) != setting.default:
                raise ConfigError(startup.refused_text(name, text, setting))
        if per_broker:
            changed = self.effective(properties, self.dynamic_default)
        else:
            changed = self.effective(self.dynamic_broker, properties)
        dynamic.check_change(self._values, changed)
        if changed.network != self.network:
            raise ConfigError("Listeners cannot be changed while the broker runs: change the file and restart it.")
        return changed

    def _set(self, dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]) -> None:
        texts = dynamic.layered(self.static, dynamic_default, dynamic_broker)
        values = _typed(texts)
        self.network = startup.network(values, texts)
        self._values = values
        self.tls = startup.tls_settings(values, texts, self.network)
        self.dynamic_broker = dict(dynamic_broker)
        self.dynamic_default = dict(dynamic_default)
        self.derived.clear()

    @staticmethod
    def _report_inert(before: Mapping[str, str], after: Mapping[str, str], hidden: frozenset[str]) -> None:
        for name, text in after.items():
            setting = startup.setting_of(name)
            served = (
                setting is not None
                and setting.support is Support.EFFECTIVE
                and (name in BROKER or name in BROKER_QUOTAS or startup.is_of_listener(name))
            )
            if not served and not name.startswith(providers.PREFIX) and before.get(name) != text:
                shown = startup.HIDDEN if name in hidden else text
                startup.no_effect(name, shown).log(log, logging.WARNING)


def _typed(texts: Mapping[str, str]) -> dict[str, Any]:
    values = dict(_DEFAULTS)
    for name, text in texts.items():
        setting = BROKER.get(name) or BROKER_INTERNAL.get(name)
        if setting is not None:
            values[name] = setting.parse(text)
    values["broker.id"] = values["node.id"]
    return values
