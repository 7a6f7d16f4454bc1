"""Combines a file, a command line and this broker's defaults into valid settings, or reports in one line why they are
not valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from broker_cy.config import foreign, sasl, tls
from broker_cy.config.definitions import BROKER, BROKER_INTERNAL, BROKER_QUOTAS, Setting
from broker_cy.config.listeners import Listener, parse_listeners, parse_protocol_map, with_controller_defaults
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError, parse
from broker_cy.core.logs import Event
from broker_cy.core.properties import lines_of, read_properties_file

# Defaults that differ from Kafka's. Kafka has none for the first three, and its default data directory is emptied by a
# reboot; the others require three brokers in Kafka, so that one broker could never create its internal topics.
BUILT_IN = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dir": "data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

LISTENER_PREFIX = "listener.name."
# Limits of a listener with its prefix, and of the broker without; they may change while the broker runs.
LIMITS_OF_LISTENER = frozenset({"max.connections", "max.connection.creation.rate"})
NO_EFFECT = "setting has no effect yet"
# Shown instead of a secret.
HIDDEN = "[hidden]"


class Network(NamedTuple):
    """The resolved settings of listeners. `listeners` are those for clients, in the order of the file; a node that is
    only a controller has none. `controller_names` are those of controller.listener.names, the preferred one first.
    """

    listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    advertised_controllers: tuple[Listener, ...]
    inter_broker: str
    controller_names: tuple[str, ...]
    # The security protocols of the listeners between brokers (empty on a node that is none) and of controllers.
    inter_broker_protocol: str = ""
    controller_protocol: str = "PLAINTEXT"
    # The listener of brokers that a node which is only a controller sends its events to, and its protocol; empty: any
    # of them without TLS and login.
    events_to: str = ""
    events_to_protocol: str = ""

    @property
    def to_brokers(self) -> tuple[str, str]:
        """The listener of brokers that this node connects to, and its protocol; empty for none by name."""
        if self.inter_broker:
            return self.inter_broker, self.inter_broker_protocol
        return self.events_to, self.events_to_protocol


class Place(NamedTuple):
    """The place of a setting: a line of a file, or an option of the command line, whose `line` is 0."""

    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}: line {self.line}" if self.line else self.source

    @property
    def short(self) -> str:
        return f"line {self.line}" if self.line else "--set"


class QuorumVoter(NamedTuple):
    """One entry of controller.quorum.voters."""

    node_id: int
    host: str
    port: int


def parse_override(text: str) -> tuple[str, str]:
    """Return name and value of one `--set name=value`. Raises ConfigError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {text}: expected --set name=value")
    return name.strip(), value.strip()


def sources(
    file: str | Path | None = None,
    *,
    data_dir: str | None = None,
    listener: str | None = None,
    overrides: Iterable[str] = (),
) -> dict[str, str]:
    """Return the settings of `broker-cy start`: those of the file, overridden by the options and by each `name=value`.

    Raises ConfigError with a one-line message.
    """
    found = read_properties_file(file) if file is not None else {}
    if data_dir is not None:
        found.pop("log.dir", None)
        found["log.dirs"] = data_dir
    if listener is not None:
        name = found.get("inter.broker.listener.name", "PLAINTEXT")
        # Imported here, because most starts have no such option.
        from broker_cy.client.address import parse_address

        try:
            address = parse_address(listener, needs_port=True, port_min=0, is_listener=True)
        except ValueError as error:
            raise ConfigError(f"--listener: {error}") from None
        found["listeners"] = f"{name}://{address}"
        # The advertised listeners of the file would differ from the requested address.
        found.pop("advertised.listeners", None)
    for text in overrides:
        key, value = parse_override(text)
        if key == "log.dir":
            found.pop("log.dirs", None)
        found[key] = value
    return found


def places(file: str | Path | None, overrides: Iterable[str]) -> dict[str, Place]:
    """Return where each setting of `sources` is written. Raises ConfigError."""
    found = {name: Place(str(file), line) for name, line in lines_of(file).items()} if file is not None else {}
    for text in overrides:
        name = parse_override(text)[0]
        found[name] = Place(f"--set {name}", 0)
    return found


def complete(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with node.id and broker.id set to the same value. Raises ConfigError if they differ."""
    found = dict(properties)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if other in found:
            found.setdefault(name, found[other])
    if "node.id" in found and BROKER["node.id"].parse(found["node.id"]) != BROKER["broker.id"].parse(
        found["broker.id"]
    ):
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    return found


def setting_of(name: str) -> Setting | None:
    """Return the definition of a broker setting, also for a name with the prefix `listener.name.<listener>.` or a
    mechanism; None for a custom setting.
    """
    found = BROKER.get(name) or BROKER_INTERNAL.get(name) or BROKER_QUOTAS.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        # Settings of a mechanism have its name as a prefix: listener.name.sasl_ssl.plain.sasl.jaas.config.
        found = BROKER.get(base) or BROKER.get(base.partition(".")[2])
    return found


def is_of_listener(name: str) -> bool:
    """Whether a setting with the prefix of a listener has an effect for that listener."""
    if sasl.is_served(name) or tls.is_served(name):
        return True
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] in LIMITS_OF_LISTENER


def no_effect(name: str, text: str) -> Event:
    setting = setting_of(name)
    shown = HIDDEN if setting is not None and setting.is_sensitive else text
    return Event(NO_EFFECT, {"setting": name, "value": shown})


def refused_text(name: str, shown: str, setting: Setting) -> str:
    """Why a known setting is refused, and the remedy. `foreign_configs.tsv` has a row for each of them."""
    row = foreign.row_of(setting.name)
    assert row is not None, name
    return f"{name}={HIDDEN if setting.is_sensitive else shown} {row.text}"


def check_served(values: Mapping[str, Any]) -> None:
    """Check the settings that depend on the roles of the node (Kafka's KafkaConfig). Raises ConfigError."""
    roles = values["process.roles"]
    node_id, voters = values["node.id"], values["controller.quorum.voters"]
    if len(set(roles)) < len(roles):
        raise ConfigError(f"Duplicate role names found in `process.roles`: {','.join(roles)}")
    found = quorum_voters(voters)
    is_voter = any(voter.node_id == node_id for voter in found)
    if "controller" in roles and voters and not is_voter:
        raise ConfigError(
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of "
            f"voters controller.quorum.voters={','.join(voters)}"
        )
    if "controller" not in roles:
        if values["controller.quorum.auto.join.enable"]:
            raise ConfigError(
                "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' "
                "role."
            )
        if is_voter:
            raise ConfigError(
                f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the "
                f"set of voters controller.quorum.voters={','.join(voters)}"
            )
        if not voters and not values["controller.quorum.bootstrap.servers"]:
            raise ConfigError(
                "If using process.roles, either controller.quorum.bootstrap.servers must contain a set of bootstrap "
                "controllers or controller.quorum.voters must contain a parseable set of controllers."
            )


def quorum_voters(texts: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """Parse controller.quorum.voters, whose form was checked. Raises ConfigError for an id that occurs twice."""
    voters = []
    for text in texts:
        number, _, address = text.partition("@")
        host, _, port = address.rpartition(":")
        voters.append(QuorumVoter(int(number), host.strip("[]"), int(port)))
    ids = [voter.node_id for voter in voters]
    for node_id in ids:
        if ids.count(node_id) > 1:
            raise ConfigError(
                f"setting controller.quorum.voters={','.join(texts)} names node {node_id} twice: each voter has its "
                "own node.id"
            )
    return tuple(voters)


def data_directories(values: Mapping[str, Any]) -> tuple[str, ...]:
    found: tuple[str, ...] = values["log.dirs"] or values["log.dir"]
    return found


def network(values: Mapping[str, Any], properties: Mapping[str, str]) -> Network:
    """Return listeners as typed objects. Raises ConfigError with Kafka's message."""
    controllers = [name.upper() for name in values["controller.listener.names"]]
    protocols = parse_protocol_map(values["listener.security.protocol.map"])
    if "listener.security.protocol.map" not in properties:
        names = [text.partition("://")[0] for text in values["listeners"]]
        protocols = with_controller_defaults(protocols, controllers, names)
    everything = parse_listeners(values["listeners"], protocols, distinct_ports=True)
    ours = tuple(listener for listener in everything if listener.name not in controllers)
    advertised = ours
    found_listeners: tuple[Listener, ...] = ()
    if values["advertised.listeners"] is not None:
        found_listeners = parse_listeners(values["advertised.listeners"], protocols, distinct_ports=False)
        advertised = tuple(listener for listener in found_listeners if listener.name not in controllers)
    theirs = tuple(listener for listener in everything if listener.name in controllers)
    their_addresses = tuple(
        next((one for one in found_listeners if one.name == listener.name), listener) for listener in theirs
    )
    roles = values["process.roles"]
    _check_controllers(values, properties, everything, theirs)
    controller_protocol = _controller_protocol(controllers, protocols)
    if "broker" not in roles:
        events_to = _events_to(values, properties, protocols)
        return Network((), theirs, (), their_addresses, "", tuple(controllers), "", controller_protocol, *events_to)
    _check_advertised(advertised, {listener.name for listener in everything})
    inter_broker = _inter_broker(values, properties, protocols)
    if inter_broker not in {listener.name for listener in advertised}:
        raise ConfigError(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(listener.name for listener in advertised)}"
        )
    return Network(
        ours,
        theirs,
        advertised,
        their_addresses,
        inter_broker,
        tuple(controllers),
        protocols[inter_broker],
        controller_protocol,
    )


def _controller_protocol(controllers: Sequence[str], protocols: Mapping[str, str]) -> str:
    """The security protocol of the controllers of other nodes."""
    # A node that is alone needs none of them in the map.
    return protocols.get(controllers[0], "PLAINTEXT") if controllers else "PLAINTEXT"


def sasl_settings(values: Mapping[str, Any], properties: Mapping[str, str], net: Network) -> sasl.SaslSettings:
    """Return the offers of listeners with SASL, and this node's login to other nodes. Raises ConfigError."""
    return sasl.resolve(
        values,
        properties,
        (*net.listeners, *net.controller_listeners),
        net.to_brokers,
        (net.controller_names[0] if net.controller_names else "", net.controller_protocol),
    )


def tls_settings(values: Mapping[str, Any], properties: Mapping[str, str], net: Network) -> tls.TlsSettings:
    """Return the offers of listeners with TLS, and this node's TLS to other nodes. Raises ConfigError."""
    return tls.resolve(
        values,
        properties,
        (*net.listeners, *net.controller_listeners),
        net.to_brokers,
        (net.controller_names[0] if net.controller_names else "", net.controller_protocol),
    )


def _check_controllers(
    values: Mapping[str, Any], properties: Mapping[str, str], everything: Sequence[Listener], theirs: Sequence[Listener]
) -> None:
    """Check the listeners of the controller, with Kafka's messages. The controller of a single node needs none."""
    roles = values["process.roles"]
    if "controller" not in roles:
        if theirs and "controller.listener.names" in properties:
            raise ConfigError(
                "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
                "running KRaft with just the broker role"
            )
        return
    voters = quorum_voters(values["controller.quorum.voters"])
    if not theirs and ("broker" not in roles or len(voters) > 1):
        raise ConfigError(
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
            "when running the KRaft controller role"
        )
    if "broker" not in roles and len(theirs) < len(everything):
        raise ConfigError(
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )


def _check_advertised(advertised: tuple[Listener, ...], names: set[str]) -> None:
    if not advertised:
        raise ConfigError(
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?"
        )
    absent = [listener.name for listener in advertised if listener.name not in names]
    if absent:
        raise ConfigError(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
            f"{','.join(absent)}. The valid options based on the current configuration are {','.join(sorted(names))}"
        )
    if any(listener.host == "0.0.0.0" for listener in advertised):
        raise ConfigError(
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )


def _inter_broker(values: Mapping[str, Any], properties: Mapping[str, str], protocols: Mapping[str, str]) -> str:
    name = values["inter.broker.listener.name"]
    if name is None:
        protocol: str = values["security.inter.broker.protocol"]
        return protocol
    if "security.inter.broker.protocol" in properties:
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if name.upper() not in protocols:
        raise ConfigError(
            f"Listener with name {name.upper()} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        )
    return str(name.upper())


def _events_to(
    values: Mapping[str, Any], properties: Mapping[str, str], protocols: Mapping[str, str]
) -> tuple[str, str]:
    """The listener between brokers, as a controller's own settings name it, and its protocol. Kafka's controllers do
    not use these settings, so they may be incomplete: both texts are empty without a protocol, or if the protocol needs
    a login and has none.
    """
    if "inter.broker.listener.name" in properties:
        name = str(values["inter.broker.listener.name"]).upper()
    elif "security.inter.broker.protocol" in properties:
        name = str(values["security.inter.broker.protocol"])
    else:
        return "", ""
    protocol = protocols.get(name, "")
    is_usable = bool(protocol) and (protocol not in sasl.PROTOCOLS or sasl.has_login(values, properties, name))
    return (name, protocol) if is_usable else ("", "")


def built_in_values() -> dict[str, Any]:
    """Return the typed defaults of every broker setting of this broker."""
    values = {name: setting.default for name, setting in (BROKER | BROKER_INTERNAL).items()}
    for name, text in BUILT_IN.items():
        values[name] = parse(name, text, BROKER[name].type)
    return values
