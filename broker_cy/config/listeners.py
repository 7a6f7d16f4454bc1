"""Listeners in settings: `NAME://host:port`, and the security protocol of each name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError

# Kafka's SecurityProtocol, by its id.
SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
PORT_MAX = 65535


class Listener(NamedTuple):
    """One address. An empty host stands for every address when listening, and for this machine's name when advertised;
    port 0 for a free port.
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def protocol_id(self) -> int:
        return SECURITY_PROTOCOL_IDS[self.protocol]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_map(name: str, text: str) -> dict[str, str]:
    """Parse `a:b,c:d` to a dict; a value starts after the last colon. Raises ConfigError."""
    found: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, colon, value = part.rpartition(":")
        if not colon:
            raise ConfigError(
                f"Error parsing configuration property '{name}': {part.strip()} is not of the form key:value"
            )
        found[key.strip()] = value.strip()
    return found


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol by listener name, from listener.security.protocol.map. Raises ConfigError."""
    setting = "listener.security.protocol.map"
    found = {}
    for name, protocol in parse_map(setting, text).items():
        if protocol.upper() not in SECURITY_PROTOCOL_IDS:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in {setting}")
        found[name.upper()] = protocol.upper()
    return found


def with_controller_defaults(
    protocols: Mapping[str, str], controller_names: Collection[str], listener_names: Collection[str]
) -> dict[str, str]:
    """Add the defaults of the map: controller listeners are PLAINTEXT, unless any listener uses security."""
    secured = {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}
    if secured & {name.upper() for name in (*controller_names, *listener_names)}:
        return dict(protocols)
    return {**protocols, **{name.upper(): "PLAINTEXT" for name in controller_names}}


def parse_listeners(
    texts: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    """Parse the listeners. Raises ConfigError with Kafka's message."""
    where = f"Error creating broker listeners from '[{', '.join(texts)}]': "
    listeners: list[Listener] = []
    for text in texts:
        found = _LISTENER.fullmatch(text)
        if not found or int(found[3]) > PORT_MAX:
            raise ConfigError(f"{where}Unable to parse {text} to a broker endpoint")
        name = found[1].upper()
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"{where}No security protocol defined for listener {name}")
        listeners.append(Listener(name, found[2], int(found[3]), protocol))
    shown = f"listeners: [{', '.join(texts)}]"
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ConfigError(f"{where}Each listener must have a different name, {shown}")
    if distinct_ports:
        _check_ports(listeners, f"{where}Each listener must have a different port, {shown}")
    return tuple(listeners)


def _check_ports(listeners: Sequence[Listener], message: str) -> None:
    """Check that ports differ, except for an IPv4 and an IPv6 address with the same port. The kernel would also accept
    different addresses of one kind, but Kafka does not.
    """
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for same in by_port.values():
        if len(same) > 2 or (len(same) == 2 and (":" in same[0].host) == (":" in same[1].host)):
            raise ConfigError(message)
