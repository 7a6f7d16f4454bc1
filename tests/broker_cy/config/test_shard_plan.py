"""The settings of shards, from those of their node."""

from __future__ import annotations

import pytest

from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.config.shard_plan import make

NODE = {
    "process.roles": "broker,controller",
    "node.id": "2",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9192",
    "advertised.listeners": "PLAINTEXT://b.example:19092,CONTROLLER://b.example:19192",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a.example:9192,2@b.example:19192,3@c.example:9192",
    "log.dirs": "/srv/events",
    "broker.rack": "r1",
    "brokercy.metrics.listener": "127.0.0.1:9308",
    "brokercy.metrics.token.file": "/etc/tokens",
}


def test_a_node_of_a_cluster() -> None:
    """If this fails, shards meet each other's ports, ids or directories, or a host has several votes."""
    plan = make(NODE, 3)
    assert (plan.root, plan.metrics, plan.has_controller) == ("/srv/events", "127.0.0.1:9308", True)
    configs = [BrokerConfig.from_properties(each) for each in plan.shards]
    assert [config.node_id for config in configs] == [2, 1002, 2002]
    assert [str(config.log_dirs[0]) for config in configs] == [f"/srv/events/shard-{shard}" for shard in range(3)]
    assert [config.is_controller for config in configs] == [True, False, False]
    assert [str(config.listeners[0]) for config in configs] == [f"PLAINTEXT://:{9092 + shard}" for shard in range(3)]
    assert [len(config.network.controller_listeners) for config in configs] == [1, 0, 0]
    assert [str(each) for config in configs for each in config.advertised_listeners] == [
        f"PLAINTEXT://b.example:{19092 + shard}" for shard in range(3)
    ]
    assert all(config["broker.rack"] == "r1" for config in configs)
    assert plan.metrics_access["brokercy.metrics.token.file"] == "/etc/tokens"
    for name in ("brokercy.metrics.listener", "brokercy.metrics.token.file"):
        assert all(config[name] is None for config in configs)
    assert not any(config.begins_cluster for config in configs)


def test_several_disks() -> None:
    """If this fails, shards share a data directory, or a cordoned disk gets new replicas."""
    disks = {"log.dirs": "/a,/b/", "metadata.log.dir": "/m", "cordoned.log.dirs": "/a"}
    plan = make({**NODE, **disks}, 2)
    assert plan.roots == ("/m", "/a", "/b")
    for shard, settings in enumerate(plan.shards):
        config = BrokerConfig.from_properties(settings)
        assert [str(path) for path in config.log_dirs] == [f"/a/shard-{shard}", f"/b/shard-{shard}"]
        assert config["metadata.log.dir"] == f"/m/shard-{shard}"
        assert config["cordoned.log.dirs"] == (f"/a/shard-{shard}",)
    every = make({**NODE, **disks, "cordoned.log.dirs": "*"}, 2)
    assert {each["cordoned.log.dirs"] for each in every.shards} == {"*"}


def test_variables_of_config_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the parent listens at `${env:METRICS}`, or the plan has the secrets of the shards."""
    monkeypatch.setenv("KCY_METRICS", "127.0.0.1:9308")
    monkeypatch.setenv("KCY_RACK", "r7")
    provider = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    settings = {"brokercy.metrics.listener": "${env:KCY_METRICS}", "broker.rack": "${env:KCY_RACK}"}
    plan = make({**NODE, **provider, **settings}, 2)
    assert plan.metrics == "127.0.0.1:9308"
    assert [each["broker.rack"] for each in plan.shards] == ["${env:KCY_RACK}"] * 2
    assert [BrokerConfig.from_properties(each)["broker.rack"] for each in plan.shards] == ["r7"] * 2


def test_without_any_settings() -> None:
    """If this fails, `broker-cy start --shards 2` needs a configuration."""
    plan = make({}, 2)
    first, second = (BrokerConfig.from_properties(each) for each in plan.shards)
    assert (first.node_id, second.node_id) == (1, 1001)
    assert [str(each) for each in first.network.controller_listeners] == ["CONTROLLER://127.0.0.1:9094"]
    assert first.begins_cluster
    assert [each.port for each in second.quorum_voters] == [9094]


def test_dynamic_voters_and_a_broker_only() -> None:
    """If this fails, the other shards do not find the controller."""
    dynamic = {name: text for name, text in NODE.items() if name != "controller.quorum.voters"}
    shards = make({**dynamic, "controller.quorum.auto.join.enable": "true"}, 2).shards
    assert shards[1]["controller.quorum.bootstrap.servers"] == "b.example:19192"
    broker = {
        "process.roles": "broker",
        "node.id": "7",
        "listeners": "PLAINTEXT://:9092",
        "controller.quorum.bootstrap.servers": "a.example:9192",
        "controller.listener.names": "CONTROLLER",
    }
    plan = make(broker, 2)
    assert not plan.has_controller
    assert [each["process.roles"] for each in plan.shards] == ["broker", "broker"]
    assert plan.shards[1]["node.id"] == "1007"


@pytest.mark.parametrize(
    ("count", "changes", "message"),
    [
        (0, {}, "--shards 0: expected a number from 1 to 256"),
        (-1, {}, "--shards -1: expected a number from 1 to 256"),
        (257, {}, "--shards 257: expected a number from 1 to 256"),
        (2, {"node.id": "1000", "controller.quorum.voters": "1000@b:19192"}, "node.id=1000 must be below 1000"),
        (2, {"listeners": "PLAINTEXT://:0,CONTROLLER://:9192", "advertised.listeners": "PLAINTEXT://b:0"},
         "listener PLAINTEXT://:0 has port 0"),
        (2, {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
         "PLAINTEXT://:9092 needs the ports 9092 to 9093, which CONTROLLER://:9093 uses as well: use a port of 9094"),
        (2, {"brokercy.metrics.listener": ":9093"}, "which brokercy.metrics.listener=:9093 uses as well"),
        (2, {"listeners": "PLAINTEXT://:65535,CONTROLLER://:9192"}, "needs the ports 65535 to 65536"),
        (2, {"process.roles": "controller", "listeners": "CONTROLLER://:9192",
             "advertised.listeners": "CONTROLLER://b:19192"}, "has no broker"),
    ],
)  # fmt: skip
def test_refused(count: int, changes: dict[str, str], message: str) -> None:
    """If this fails, the first shards run when the last one fails, or the message does not say what to change."""
    with pytest.raises(ConfigError) as error:
        make({**NODE, **changes}, count)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
