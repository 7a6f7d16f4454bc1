"""Random requests for MirrorMaker 2's classes (MirrorOracle.java), each made from a seed, and our answers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.java_pattern import NotTranslatable, compiled
from broker_mirror.filters import NameFilter, PropertyFilter, pattern_of
from broker_mirror.formats import checkpoints, heartbeats, offset_syncs, source_offsets
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.merged import Pair, connector_properties, pairs_of, worker_properties
from broker_mirror.policy import Policy
from broker_mirror.settings import Scope, flow_names, table

Request = dict[str, Any]
ERROR: Final = "error"
"""The answer to a request that is refused; messages are not compared."""
_ALIASES: Final = ("A", "B", "us-west", "a.b", "", "heartbeats")
_TOPICS: Final = (
    "orders", "heartbeats", "A.orders", "B.A.orders", "us-west.heartbeats", "a..b", ".", "..", "", "A.", ".A", "__x",
    "mm2-offsets.A.internal", "mm2-status_A_internal", "x.checkpoints.internal", "x_checkpoints_internal", "a-internal",
    "xheartbeats", "A.B.heartbeats", "mm2.x.internal", ".internal", "AxBxorders", "mm2x", "x.internal", "Aorders",
)  # fmt: skip
_POLICY_CALLS: Final = (
    "topicSource",
    "upstreamTopic",
    "originalTopic",
    "isHeartbeatsTopic",
    "isInternalTopic",
    "isCheckpointsTopic",
)


def policies(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        props = {}
        if draw.random() < 0.7:
            props["replication.policy.separator"] = draw.choice([".", "_", "-", "..", "x", "->", ""])
        if draw.random() < 0.5:
            props["replication.policy.internal.topic.separator.enabled"] = draw.choice(["true", "false"])
        if draw.random() < 0.5:
            props["source.cluster.alias"] = draw.choice(_ALIASES)
        separator = props.get("replication.policy.separator", ".")
        calls: list[list[str]] = []
        for _ in range(12):
            topic = (
                separator.join(draw.choice(_ALIASES) for _ in range(draw.randrange(3)))
                + separator
                + draw.choice(_TOPICS)
            )
            topic = draw.choice([topic, draw.choice(_TOPICS)])
            calls += [[name, topic] for name in _POLICY_CALLS]
            calls.append(["isCycle", topic, draw.choice(_ALIASES)])
            calls.append(["formatRemoteTopic", draw.choice(_ALIASES), topic])
        calls += [[name, draw.choice(_ALIASES)] for name in ("offsetSyncsTopic", "checkpointsTopic")]
        yield {"op": "policy", "class": draw.choice(["Default", "Identity"]), "props": props, "calls": calls}


def our_policy(request: Request) -> Any:
    props = request["props"]
    separator = props.get("replication.policy.separator", ".")
    uses = props.get("replication.policy.internal.topic.separator.enabled", "true") == "true"
    policy = Policy(
        separator, separator if uses else ".", request["class"] == "Identity", props.get("source.cluster.alias")
    )
    methods: dict[str, Callable[..., Any]] = {
        "topicSource": policy.topic_source,
        "upstreamTopic": policy.upstream_topic,
        "originalTopic": policy.original_topic,
        "isHeartbeatsTopic": policy.is_heartbeats_topic,
        "isInternalTopic": policy.is_internal_topic,
        "isCheckpointsTopic": policy.is_checkpoints_topic,
        "isCycle": policy.is_cycle,
        "formatRemoteTopic": policy.remote_topic,
        "offsetSyncsTopic": policy.offset_syncs_topic,
        "checkpointsTopic": policy.checkpoints_topic,
    }
    return [methods[name](*values) for name, *values in request["calls"]]


_ATOMS: Final = (
    "a", "b", "orders", "\\.", ".", "[ab]", "[^ab]", "\\d", "\\w", "\\Qa.b\\E", "[\\w-]", "[a-c[x-z]]", "\\p{Lower}",
    "\\P{Digit}", "[\\p{Upper}_]", "\\x41", "\\u0061", "-", "_", "[\\-\\.]", "\\S", "[.]", "\\h", "[^\\d]", "\\R",
    "\\t", "[]a]", "A", "é", "\\bo", "^a", "a$", "[a-]", "\\01", "\\$", "{", "*", "(", "[", "\\", "&", "[a&b]",
    "[\\Q]-\\E]",
)  # fmt: skip
_NAMES: Final = (
    "a", "b", "ab", "A", "orders", "ORDERS", "orders-1", "a.b", "axb", "x", "__x", "", "a-b", "Orders", "é", "\t", "7",
    "aa", "a\nb", "aAbB", "orders.internal", "\r\n", "]", "&", "-", "abab", "console-consumer-1", "connect-x",
    "mm2-offsets.A.internal",
)  # fmt: skip


def _regex(draw: Random, depth: int = 2) -> str:
    parts = []
    for _ in range(draw.randrange(1, 4)):
        part = draw.choice(_ATOMS)
        if depth and draw.random() < 0.3:
            opening = draw.choice(["(", "(?:", "(?i:", "(?<n>", "(?=", "(?!", "(?>", "((?i)", "((?s)", "(?<!"])
            part = f"{opening}{_regex(draw, depth - 1)})"
        elif draw.random() < 0.1:
            part = draw.choice(["(?i)", "(?s)", "(?-i)"])
        if draw.random() < 0.3:
            part += draw.choice(["*", "+", "?", "{1,2}", "{2}", "*?", "++", "{0,}"])
        parts.append(part)
    text = "".join(parts)
    return f"{text}|{_regex(draw, depth)}" if draw.random() < 0.25 else text


def regexes(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        yield {"op": "regex", "pattern": _regex(Random(seed)), "names": list(_NAMES)}


def our_regex(request: Request) -> Any:
    try:
        pattern = compiled(request["pattern"])
    except NotTranslatable:
        return ERROR
    return [pattern.fullmatch(name) is not None for name in request["names"]]


_PROPERTY_NAMES: Final = (
    "retention.ms",
    "min.insync.replicas",
    "message.timestamp.type",
    "cleanup.policy",
    "minXinsync.replicas",
)


def filters(seeds: int) -> Iterator[Request]:
    patterns = ("orders.*", "a", ".*", "(?i)A", "__.*", "connect-.*", "[a-z]+", " b ", "*", "min\\..*", "")
    for seed in range(seeds):
        draw = Random(seed)
        kind = draw.choice(["topics", "groups", "properties", "defaults"])
        names = {"topics": ("topics", "topics.exclude"), "groups": ("groups", "groups.exclude")}
        props = {
            name: draw.choice([",", ", "]).join(draw.choices(patterns, k=draw.randrange(4)))
            for name in names.get(kind, ("config.properties.exclude",))
            if draw.random() < 0.7
        }
        if draw.random() < 0.5:
            props["use.defaults.from"] = draw.choice(["source", "target"])
        yield {"op": "filter", "kind": kind, "props": props, "names": [*_NAMES, *_PROPERTY_NAMES]}


def our_filter(request: Request) -> Any:
    def read(name: str) -> Any:
        setting = table()[Scope.FLOW, name]
        return setting.read(name, request["props"][name]) if name in request["props"] else setting.default

    kind = request["kind"]
    try:
        if kind in ("topics", "groups"):
            names = NameFilter(pattern_of(kind, read(kind)), pattern_of(kind, read(f"{kind}.exclude")))
            return [names.takes(name) for name in request["names"]]
        name = "config.properties.exclude"
        found = PropertyFilter(pattern_of(name, read(name)), read("use.defaults.from") == "source")
    except ConfigError:
        return ERROR
    return [found.uses_source_defaults if kind == "defaults" else found.takes(each) for each in request["names"]]


_TEXTS: Final = ("", "orders", "A", "größe", "x" * 300, 'a"b\\c', "\x00\x1f\t\n\x7f", "日本", "𝄞", "->", "a/b")
_NUMBERS: Final = (0, 1, 41, 2**31 - 1, 2**31, 2**62, 2**63 - 1)


def encodings(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        texts, numbers = draw.choices(_TEXTS, k=3), draw.choices(_NUMBERS, k=3)
        fields = {
            "sync": [texts[0], draw.randrange(2**31), numbers[0], numbers[1]],
            "checkpoint": [texts[0], texts[1], draw.randrange(2**31), numbers[0], numbers[1], texts[2]],
            "heartbeat": [texts[0], texts[1], numbers[0]],
        }
        kind = draw.choice(sorted(fields))
        yield {"op": "encode", "kind": kind, "fields": fields[kind]}


def our_encoding(request: Request) -> Any:
    record = {
        "sync": offset_syncs.OffsetSync,
        "checkpoint": checkpoints.Checkpoint,
        "heartbeat": heartbeats.Heartbeat,
    }[request["kind"]](*request["fields"])
    return [record.key().hex(), record.value().hex()]


def decodings(seeds: int) -> Iterator[Request]:
    """Records of `encodings`, with changed bytes."""
    for seed, request in enumerate(encodings(seeds)):
        draw = Random(seed)
        key, value = (bytearray.fromhex(each) for each in our_encoding(request))
        for data in (key, value):
            match draw.randrange(5):
                case 0 if data:
                    del data[draw.randrange(len(data)) :]
                case 1 if data:
                    data[draw.randrange(min(len(data), 4))] = draw.randrange(128)
                case 2:
                    data += bytes(draw.randrange(1, 9))
                case _:
                    pass
        yield {"op": "decode", "kind": request["kind"], "key": key.hex(), "value": value.hex()}


def our_decoding(request: Request) -> Any:
    key, value = bytes.fromhex(request["key"]), bytes.fromhex(request["value"])
    try:
        match request["kind"]:
            case "sync":
                sync = offset_syncs.decode(key, value)
                return [sync.topic, sync.partition, sync.source_offset, sync.target_offset]
            case "checkpoint":
                point = checkpoints.decode(key, value)
                return [
                    point.group, point.topic, point.partition, point.source_offset, point.target_offset, point.metadata,
                ]  # fmt: skip
            case _:
                beat = heartbeats.decode(key, value)
                return [beat.source, beat.target, beat.time_ms]
    except DamagedRecord:
        return ERROR


def source_keys(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        if seed % 4 == 0:
            yield {"op": "json", "offset": draw.choice(_NUMBERS)}
        else:
            connector, cluster, topic = (draw.choice(_TEXTS) for _ in range(3))
            yield {"op": "json", "partition": [connector, cluster, topic, draw.randrange(2**31)]}


def our_source_key(request: Request) -> Any:
    if "offset" in request:
        return source_offsets.encode_offset(request["offset"]).decode()
    connector, cluster, topic, partition = request["partition"]
    return source_offsets.SourcePartition(cluster, topic, partition, connector).key().decode()


_INNER: Final = {
    "enabled": ("true", "false", "TRUE", "yes"),
    "emit.heartbeats.enabled": ("true", "false"),
    "topics": ("a.*", "b"),
    "replication.factor": ("1", "3"),
    "bootstrap.servers": ("h:1", "h:1,i:2"),
    "security.protocol": ("SSL", "SASL_SSL", "PLAINTEXT"),
    "sasl.mechanism": ("PLAIN",),
    "consumer.fetch.min.bytes": ("5",),
    "producer.acks": ("all",),
    "admin.request.timeout.ms": ("7",),
    "source.consumer.client.rack": ("r",),
    "target.producer.security.protocol": ("SSL",),
    "consumer.security.protocol": ("PLAINTEXT",),
    "source.cluster.bootstrap.servers": ("z:9",),
    "source.cluster.alias": ("S",),
    "offset.storage.topic": ("o",),
    "offset.storage.replication.factor": ("1",),
    "config.storage.topic": ("c",),
    "tasks.max": ("4",),
    "task.shutdown.graceful.timeout.ms": ("4",),
    "worker.sync.timeout.ms": ("4",),
    "group.id": ("g",),
    "client.id": ("c",),
    "exactly.once.source.support": ("enabled",),
    "replication.policy.separator": ("_",),
    "replication.policy.other": ("x",),
    "key.converter": ("org.apache.kafka.connect.converters.ByteArrayConverter",),
    "name": ("n",),
    "unknown.setting": ("u",),
}


def configs(seeds: int) -> Iterator[Request]:
    for seed in range(seeds):
        draw = Random(seed)
        clusters = draw.sample(["A", "B", "us-west", "source", "A.x"], draw.randrange(1, 4))
        prefixes = ["", *(f"{each}." for each in clusters)]
        prefixes += [f"{one}->{other}." for one in clusters for other in clusters]
        props = {"clusters": draw.choice([",", ", "]).join(clusters)}
        for _ in range(draw.randrange(30)):
            name = draw.choice(sorted(_INNER))
            props[draw.choice(prefixes) + name] = draw.choice(_INNER[name])
        for alias in clusters:
            props[f"{alias}.bootstrap.servers"] = f"{alias}:9092"
        yield {"op": "config", "props": props}


def our_config(request: Request) -> Any:
    props: dict[str, str] = request["props"]
    clusters: tuple[str, ...] = table()[Scope.FILE, "clusters"].parse(props["clusters"])
    found = {}
    for pair in pairs_of(props, clusters):
        found[str(pair)] = {
            "worker": dict(sorted(worker_properties(props, pair).items())),
            "connector": dict(sorted(connector_properties(props, Pair(*pair), flow_names()).items())),
        }
    return found


def stores(seeds: int) -> Iterator[Request]:
    """Syncs that MirrorMaker 2 keeps in part. Ours are compared with its answers in another way."""
    for seed in range(seeds):
        draw = Random(seed)
        source, target = draw.randrange(1000), draw.randrange(1000)
        syncs = []
        for _ in range(draw.randrange(1, 300)):
            syncs.append([source, target])
            step = draw.randrange(1, 300)
            source, target = source + step + draw.choice([0, 0, 5]), target + step + draw.choice([0, 0, 7])
        offsets = [draw.randrange(source + 100) for _ in range(60)]
        yield {"op": "store", "syncs": syncs, "offsets": offsets}


FAMILIES: Final[dict[str, tuple[Callable[[int], Iterator[Request]], Callable[[Request], Any], int]]] = {
    "policies": (policies, our_policy, 40),
    "regexes": (regexes, our_regex, 500),
    "filters": (filters, our_filter, 150),
    "encodings": (encodings, our_encoding, 100),
    "decodings": (decodings, our_decoding, 200),
    "source_keys": (source_keys, our_source_key, 100),
    "configs": (configs, our_config, 40),
}
"""By name: random requests, our answers to them, and how many are recorded."""
STORES: Final = 40
"""How many requests of `stores` are recorded."""
