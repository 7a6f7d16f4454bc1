"""The settings of each shard (`--shards`), from those of the node. Pure: it reads no file.

Shard 0 keeps node.id and ports, and has the controller role if the node has it; shard i has node.id + 1000 i, ports + i
and only the role of a broker. All of them have directories of their own below the configured ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker_cy.config.broker import BrokerConfig
from broker_cy.config.checks import EVERY_DIR
from broker_cy.config.listeners import PORT_MAX, Listener
from broker_cy.config.startup import Place
from broker_cy.core import shard_ids
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError

METRICS: Final = "brokercy.metrics.listener"
# Access to the metrics pages. Shards serve no pages, and do not have these settings.
METRICS_ACCESS: Final = (
    "brokercy.metrics.token.file",
    "brokercy.metrics.ssl.certificate.file",
    "brokercy.metrics.ssl.key.file",
)
# The host of the controller listener of a node that configures none.
LOOPBACK: Final = "127.0.0.1"
_MAP: Final = "listener.security.protocol.map"
_NO_PLACES: Final[Mapping[str, Place]] = {}


class Plan(NamedTuple):
    """`shards` are the settings of each shard, by number. `roots` are the configured directories; the first one has the
    metadata log, and the files of the parent. `metrics` is the address at which the parent serves metrics, empty if it
    does not. `session_timeout_ms` is that of a broker.
    """

    shards: tuple[dict[str, str], ...]
    roots: tuple[str, ...]
    metrics: str
    metrics_access: Mapping[str, str]
    session_timeout_ms: int
    has_controller: bool

    @property
    def root(self) -> str:
        """The directory without which no shard runs."""
        return self.roots[0]


def check_count(count: int) -> None:
    """Raises ConfigError."""
    if not 1 <= count <= shard_ids.SHARDS_MAX:
        raise ConfigError(f"--shards {count}: expected a number from 1 to {shard_ids.SHARDS_MAX}")


def make(properties: Mapping[str, str], count: int, places: Mapping[str, Place] = _NO_PLACES) -> Plan:
    """The settings of `count` shards, whose ports fit each other. `places` has the place of each. Raises ConfigError,
    with one line that says what to change.
    """
    check_count(count)
    config = BrokerConfig.from_properties(properties, places)
    _check(config, count)
    static = dict(properties)
    paths = [str(path) for path in config.log_dirs]
    roots = tuple(dict.fromkeys([config["metadata.log.dir"] or paths[0], *paths]))
    # Shards resolve variables of config providers themselves; these are settings of the parent.
    metrics = config.static[METRICS] if static.pop(METRICS, "") else ""
    metrics_access = {name: config.static[name] if static.pop(name, "") else "" for name in METRICS_ACCESS}
    if config.is_controller and not config.network.controller_listeners:
        static.update(_controller_listener(config, config.static, count))
        config = BrokerConfig.from_properties(static, places)
    _check_ports(config, count, metrics)
    shards = tuple(_shard(config, static, shard) for shard in range(count))
    return Plan(shards, roots, metrics, metrics_access, int(config["broker.session.timeout.ms"]), config.is_controller)


def directory(path: str, shard: int) -> str:
    """The directory of a shard below a configured one."""
    return f"{path.rstrip('/') or '/'}/shard-{shard}"


def _check(config: BrokerConfig, count: int) -> None:
    if not config.is_broker:
        raise ConfigError(
            f"--shards {count}: process.roles={','.join(config['process.roles'])} has no broker, and a controller is "
            "one process: start it without --shards"
        )
    if config.node_id >= shard_ids.STEP:
        raise ConfigError(
            f"--shards {count}: node.id={config.node_id} must be below {shard_ids.STEP}, because shard 1 has "
            f"node.id + {shard_ids.STEP}, shard 2 node.id + {2 * shard_ids.STEP}, and so on"
        )
    for listener in (*config.listeners, *config.network.controller_listeners):
        if not listener.port:
            raise ConfigError(
                f"--shards {count}: listener {listener} has port 0, but the ports of shards follow on each other: "
                "name a port"
            )


def _controller_listener(config: BrokerConfig, static: Mapping[str, str], count: int) -> dict[str, str]:
    """The settings of a controller that names no listener: only the shards of this host have to reach it."""
    name = config.network.controller_names[0]
    port = max(listener.port for listener in config.listeners) + count
    if port > PORT_MAX:
        raise ConfigError(
            f"--shards {count}: no port is left for the controller after {port - 1}: use lower ports in listeners"
        )
    found = {
        "listeners": ",".join([*map(str, config.listeners), f"{name}://{LOOPBACK}:{port}"]),
        "controller.listener.names": ",".join(config.network.controller_names),
    }
    if config.advertised_listeners != config.listeners:
        found["advertised.listeners"] = ",".join(map(str, config.advertised_listeners))
    if not config.quorum_voters and not config["controller.quorum.bootstrap.servers"]:
        found["controller.quorum.voters"] = f"{config.node_id}@{LOOPBACK}:{port}"
    if _MAP in static and name not in {part.partition(":")[0].strip().upper() for part in static[_MAP].split(",")}:
        found[_MAP] = f"{static[_MAP]},{name}:PLAINTEXT"
    return found


def _check_ports(config: BrokerConfig, count: int, metrics: str) -> None:
    """Each listener needs `count` ports in a row, the controller and the metrics one each."""
    ranges = [(str(each), each.port, each.port + count - 1) for each in config.listeners]
    ranges += [(str(each), each.port, each.port) for each in config.network.controller_listeners]
    port = metrics.rpartition(":")[2]
    if port.isdecimal() and int(port):
        ranges.append((f"{METRICS}={metrics}", int(port), int(port)))
    for name, first, last in ranges:
        if last > PORT_MAX:
            raise ConfigError(f"--shards {count}: {name} needs the ports {first} to {last}, and the last is {PORT_MAX}")
    for place, (name, first, last) in enumerate(ranges):
        for other, low, high in ranges[:place]:
            if first <= high and low <= last:
                needs = f"the ports {low} to {high}" if high > low else f"port {low}"
                raise ConfigError(
                    f"--shards {count}: {other} needs {needs}, which {name} uses as well: use a port of "
                    f"{high + 1} or more for {name}"
                )
    for each in config.advertised_listeners:
        if each.port + count - 1 > PORT_MAX:
            raise ConfigError(f"--shards {count}: advertised listener {each} needs {count} ports up to {PORT_MAX}")


def _shard(config: BrokerConfig, static: Mapping[str, str], shard: int) -> dict[str, str]:
    found = dict(static)
    found.pop("broker.id", None)
    found.pop("log.dir", None)
    found["node.id"] = str(shard_ids.shard_id(config.node_id, shard))
    found["log.dirs"] = ",".join(directory(str(path), shard) for path in config.log_dirs)
    if (cordoned := config["cordoned.log.dirs"]) and EVERY_DIR not in cordoned:
        found["cordoned.log.dirs"] = ",".join(directory(path, shard) for path in cordoned)
    if config["metadata.log.dir"]:
        found["metadata.log.dir"] = directory(config["metadata.log.dir"], shard)
    controllers = config.network.controller_listeners if shard == 0 else ()
    found["listeners"] = _listed(config.listeners, shard, controllers)
    advertised = config.network.advertised_controllers if shard == 0 else ()
    if "advertised.listeners" in static:
        found["advertised.listeners"] = _listed(config.advertised_listeners, shard, advertised)
    if shard:
        found["process.roles"] = "broker"
        found.pop("controller.quorum.auto.join.enable", None)
        if not config.quorum_voters and not config["controller.quorum.bootstrap.servers"]:
            servers = [f"{each.host or LOOPBACK}:{each.port}" for each in config.network.advertised_controllers]
            found["controller.quorum.bootstrap.servers"] = ",".join(servers)
        found.setdefault("controller.listener.names", ",".join(config.network.controller_names))
    return found


def _listed(listeners: Sequence[Listener], shard: int, controllers: Sequence[Listener]) -> str:
    """The listeners of clients with the ports of a shard, and those of the controller with their own."""
    shifted = [each._replace(port=each.port + shard) for each in listeners]
    return ",".join(map(str, [*shifted, *controllers]))
