"""A target: `ours`, `kafka` and `floor` (bare system calls) are started by the tool; `address` is already running."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from broker_cy.client import toml_values
from broker_cy.client.address import parse_address
from broker_cy.client.toml_file import Table, read

# No data is removed by age or size during a measurement, and files of a deleted topic are removed before the next one.
BROKER_SETTINGS = {"log.retention.ms": "-1", "log.segment.delete.delay.ms": "1000"}
NODES_MAX = 9
SHARDS_MAX = 8
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
KINDS = ("ours", "kafka", "floor", "address")


@dataclass(frozen=True)
class TargetSpec:
    """The contents of a target file."""

    name: str
    kind: str
    bootstrap: tuple[str, int] | None = None  # of an address
    pid: int | None = None  # of an address on this host: without it the cost of the broker is not reported
    settings: Mapping[str, str] = field(default_factory=dict)  # by Kafka's names, of a broker that is started here
    jvm: tuple[str, ...] = ()  # flags in addition to those of Kafka's own script
    nodes: int = 1  # of a cluster that is started here, each of them broker and controller
    shards: int = 1  # brokers of each node of such a cluster of ours, under one parent process
    security: str = "PLAINTEXT"  # the protocol of the listener of a broker that is started here
    client_config: Path | None = None  # of an address: a file with settings of Kafka's clients, some of them secrets

    def describe(self) -> dict[str, Any]:
        """Return the settings for the report."""
        return {**asdict(self), "client_config": None if self.client_config is None else str(self.client_config)}


def load(path: Path) -> TargetSpec:
    """Read a target file. Raises SpecError."""
    return parse(read(path), path.stem, path.parent)


def from_address(value: str, client_config: Path | None = None) -> TargetSpec:
    """Parse a target named as HOST:PORT on the command line. Raises ValueError."""
    return TargetSpec(value, "address", _bootstrap(value), client_config=client_config)


def parse(top: Table, name: str, directory: Path = Path()) -> TargetSpec:
    """Parse a target from the top table of its file, which is in `directory`."""
    kind = top.take("kind", toml_values.one_of(*KINDS))
    defaults = BROKER_SETTINGS if kind in ("ours", "kafka") else {}
    settings = top.take("settings", _settings, {})
    spec = TargetSpec(
        name=name,
        kind=kind,
        bootstrap=top.take("bootstrap", _bootstrap, None),
        pid=top.take("pid", toml_values.integer(1, 1 << 22), None),
        settings={**defaults, **settings},
        jvm=top.take("jvm", _flags, ()),
        nodes=top.take("nodes", _nodes, 1),
        shards=top.take("shards", toml_values.integer(1, SHARDS_MAX), 1),
        security=top.take("security", toml_values.one_of(*PROTOCOLS), "PLAINTEXT"),
        client_config=top.take("client_config", lambda value: _file(value, directory), None),
    )
    top.finish()
    if (kind == "address") != (spec.bootstrap is not None):
        raise top.error("bootstrap", 'is required for kind = "address", and allowed only there')
    if spec.pid is not None and kind != "address":
        raise top.error("pid", 'only for kind = "address"')
    if settings and kind not in ("ours", "kafka"):
        raise top.error("settings", f'kind = "{kind}" has no settings')
    if spec.nodes > 1 and kind not in ("ours", "kafka"):
        raise top.error("nodes", 'only for kind = "ours" and kind = "kafka"')
    if spec.shards > 1 and (kind != "ours" or spec.nodes == 1):
        raise top.error("shards", 'only for kind = "ours" with `nodes`')
    if spec.security != "PLAINTEXT" and (kind not in ("ours", "kafka") or spec.nodes > 1):
        raise top.error("security", 'only for kind = "ours" and kind = "kafka" with one node')
    if spec.client_config is not None and kind != "address":
        raise top.error("client_config", 'only for kind = "address": the clients of others follow from `security`')
    if spec.jvm and kind != "kafka":
        raise top.error("jvm", 'only for kind = "kafka"')
    return spec


def _nodes(value: Any) -> int:
    found = toml_values.integer(1, NODES_MAX)(value)
    if found == 2:
        raise ValueError(f"2 (allowed: 1, and 3 to {NODES_MAX}: two nodes stop if one fails)")
    return found


def _bootstrap(value: Any) -> tuple[str, int]:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not HOST:PORT")
    return parse_address(value, needs_port=True)


def _settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table of broker settings")
    found = {}
    for key, setting in value.items():
        if isinstance(setting, dict | list):
            raise ValueError(f'{key}: {setting!r} is not a value (quote names with dots: "log.segment.bytes" = 1000)')
        found[key] = str(setting).lower() if isinstance(setting, bool) else str(setting)
    return found


def _file(value: Any, directory: Path) -> Path:
    if not isinstance(value, str) or not (path := directory / value).is_file():
        raise ValueError(f"{value!r} is not a file with the settings of a Kafka client")
    return path


def _flags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each.startswith("-") for each in value):
        raise ValueError(f"{value!r} is not a list of JVM flags")
    return tuple(value)
