"""The flows of a file: which run, and their settings. The scenarios of MirrorMaker 2's MirrorMakerConfigTest and
MirrorSourceConnectorTest.
"""

from __future__ import annotations

import pytest

from broker_cy.core.config_def.types import ConfigError
from broker_mirror.config import MirrorConfig, parse_config
from broker_mirror.flows import Flow, FlowKind, Verdict, cautions, chosen, flows_of
from broker_mirror.merged import Role, Side

CLUSTERS = {
    "clusters": "A,B,C",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "C.bootstrap.servers": "c:1",
}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def config_of(**more: str) -> MirrorConfig:
    """`__` in a name stands for a dot, and `_to_` for `->`."""
    given = {name.replace("_to_", "->").replace("__", "."): text for name, text in more.items()}
    return parse_config({**CLUSTERS, **given}, "f")


def one(**more: str) -> Flow:
    """The flow A->B."""
    (flow,) = (each for each in flows_of(config_of(A_to_B__enabled="true", **more)) if str(each.pair) == "A->B")
    return flow


def names(config: MirrorConfig) -> list[str]:
    return [str(flow.pair) for flow in flows_of(config)]


def test_heartbeats_alone_make_a_flow() -> None:
    """If this fails, a cluster has no heartbeats of flows from it, and a failure of a mirror is not seen."""
    assert len(names(config_of())) == 6
    assert not any(flow.copies for flow in flows_of(config_of()))
    assert names(config_of(emit__heartbeats__enabled="false")) == []
    enabled = config_of(
        emit__heartbeats__enabled="false", A_to_B__enabled="true", B_to_C__emit__heartbeats__enabled="true"
    )
    assert names(enabled) == ["A->B", "B->C"]
    some = config_of(A_to_B__emit__heartbeats__enabled="false", B_to_A__emit__heartbeats__enabled="false")
    assert names(some) == ["A->C", "B->C", "C->A", "C->B"]


def test_a_process_runs_the_flows_into_its_clusters() -> None:
    """If this fails, two processes copy the same flow, or none does."""
    config = config_of(emit__heartbeats__enabled="false", A_to_B__enabled="true", B_to_C__enabled="true")
    flows = flows_of(config)
    assert [str(each.pair) for each in chosen(flows, ["C"], config)] == ["B->C"]
    assert chosen(flows, [], config) == flows
    with pytest.raises(ConfigError, match="no flow into A is enabled"):
        chosen(flows, ["A"], config)
    with pytest.raises(ConfigError, match="--clusters names X, but clusters has only A, B, C"):
        chosen(flows, ["X"], config)


def test_settings_of_a_flow_win_over_those_of_all() -> None:
    """If this fails, a flow runs with the settings of another one."""
    flow = one(replication__factor="1", A_to_B__replication__factor="3", refresh__topics__interval__seconds="7")
    assert flow.values["replication.factor"] == 3
    assert flow.interval_s("refresh.topics") == 7
    assert flow.interval_s("sync.group.offsets") is None
    assert flow.interval_s("emit.checkpoints") == 60
    assert one(refresh__topics__interval__seconds="-1").interval_s("refresh.topics") is None


def test_clients_of_both_sides() -> None:
    """If this fails, a client connects with the login of the other cluster, or without one."""
    flow = one(
        A__security__protocol="ssl",
        A__consumer__fetch__min__bytes="5",
        A_to_B__consumer__client__rack="r1",
        A_to_B__source__consumer__client__rack="r2",
        B__producer__max__request__size="7",
        A_to_B__producer__override__transaction__timeout__ms="9",
        A_to_B__target__cluster__bootstrap__servers="other:1, more:2",
    )
    reads = flow.clients[Side.SOURCE, Role.CONSUMER]
    assert (reads.bootstrap, reads.security) == ("a:1", {"security.protocol": "ssl"})
    assert (reads.values["fetch.min.bytes"], reads.values["client.rack"]) == (5, "r2")
    assert reads.values["auto.offset.reset"] == "earliest"
    writes = flow.clients[Side.TARGET, Role.PRODUCER]
    assert writes.bootstrap == "b:1"  # that of B.producer, which MirrorMaker 2 prefers
    assert flow.clients[Side.TARGET, Role.ADMIN].security == {}
    assert (writes.values["max.request.size"], writes.values["transaction.timeout.ms"]) == (7, 9)


def test_a_login_of_all_clusters() -> None:
    """If this fails, settings of security at the top of the file are not used, or a cluster without them is refused."""
    more = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN", "sasl__jaas__config": "x"}
    flow = one(**more, B__security__protocol="PLAINTEXT")
    for role in Role:
        assert flow.clients[Side.SOURCE, role].security["sasl.jaas.config"] == "x"
        assert flow.clients[Side.TARGET, role].security == {"security.protocol": "PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"settings of SASL need security.protocol=SASL_PLAINTEXT"):
        one(B__sasl__mechanism="PLAIN")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"A__bootstrap__servers": ""}, "A.bootstrap.servers is not set"),
        ({"A__security__protocol": "TLS"}, "A.producer.*security.protocol=TLS is not known"),
        ({"A_to_B__topics": "*"}, r"A->B.topics=\*: '\*' is not a valid regular expression"),
        ({"groups__exclude": "["}, r"A->B.groups.exclude=\[: .* has no closing \]"),
        (
            {"A_to_B__exactly__once__support": "required", "B__exactly__once__source__support": "disabled"},
            "A->B.exactly.once.support=required needs B.exactly.once.source.support=enabled",
        ),
    ],
)
def test_wrong_settings_of_a_flow_are_named(more: dict[str, str], message: str) -> None:
    """If this fails, a flow starts without its cluster, filter, protection or guarantee."""
    with pytest.raises(ConfigError, match=message):
        one(**more)


def test_topics_that_are_copied() -> None:
    """If this fails, topics of users are left out, or internal topics and copies of copies are copied."""
    flow = one(A_to_B__topics="orders.*, B\\..*, __x, mm2.*")
    expected = {
        "orders": Verdict.COPIED,
        "orders.replica": Verdict.FILTERED,
        "other": Verdict.FILTERED,
        "heartbeats": Verdict.COPIED,
        "C.heartbeats": Verdict.COPIED,
        "B.heartbeats": Verdict.CYCLE,
        "B.orders": Verdict.CYCLE,
        "mm2-offsets.B.internal": Verdict.FILTERED,
        "__x": Verdict.FILTERED,
    }
    assert {topic: flow.verdict(topic) for topic in expected} == expected
    assert one(topics__exclude="").verdict("__x") is Verdict.INTERNAL
    assert one(topics="x", heartbeats__replication__enabled="false").verdict("heartbeats") is Verdict.FILTERED
    assert flow.remote_topic("orders") == "A.orders"


def test_names_of_internal_topics() -> None:
    """If this fails, an existing mirror loses its offsets, syncs and checkpoints."""
    flow = one(replication__policy__separator="_")
    assert flow.offset_syncs_topic == "mm2-offset-syncs_B_internal"
    assert flow.checkpoints_topic == "A_checkpoints_internal"
    assert flow.offsets_topic == "mm2-offsets.A.internal"
    other = one(**{"offset-syncs__topic__location": "target"})
    assert (other.syncs_side, other.offset_syncs_topic) == (Side.TARGET, "mm2-offset-syncs.A.internal")
    assert one(B__offset__storage__topic="o").offsets_topic == "o"


def test_the_identity_policy_and_other_aliases() -> None:
    """If this fails, topics of a migration have other names than those that consumers read."""
    flow = one(replication__policy__class=IDENTITY)
    assert flow.remote_topic("orders") == "orders"
    assert flow.remote_topic("heartbeats") == "A.heartbeats"
    assert flow.verdict("orders") is Verdict.COPIED
    named = one(A_to_B__source__cluster__alias="east")
    assert (named.source, named.remote_topic("orders")) == ("east", "east.orders")
    assert named.clients[Side.SOURCE, Role.CONSUMER].bootstrap == "a:1"


def test_settings_that_need_another_one() -> None:
    """If this fails, an operator waits for offsets of groups that never come."""
    assert cautions(one(sync__group__offsets__enabled="true")) == []
    assert cautions(one(sync__group__offsets__enabled="true", emit__checkpoints__enabled="false")) == [
        "A->B.sync.group.offsets.enabled has no effect without emit.checkpoints.enabled=true"
    ]
    assert cautions(one(**{"emit__offset-syncs__enabled": "false"})) == [
        "A->B.emit.checkpoints.enabled has no effect without emit.offset-syncs.enabled=true"
    ]


def test_own_settings() -> None:
    """If this fails, a link flow copies, or a flow takes the whole line between two sites."""
    flow = one(A_to_B__brokercy__flow="link", brokercy__bytes__per__second="1000000")
    assert (flow.kind, flow.values["brokercy.bytes.per.second"]) == (FlowKind.LINK, 1_000_000)
    assert (one().kind, one().values["brokercy.bytes.per.second"]) == (FlowKind.COPY, None)
    assert one().is_exactly_once
    assert not one(B__exactly__once__source__support="disabled").is_exactly_once
