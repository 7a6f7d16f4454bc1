"""Scenario files: every key counts; an error names file, line, key, the value and the allowed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgpack
import pytest

from broker_cy.client.payload.settings import Keys, Payload
from loadgen.scenario.model import Scenario, Threshold, TopicSpec, UserSpec, scenario_of, state_of
from loadgen.scenario.options import KINDS
from loadgen.scenario.profile import RateProfile, Search
from loadgen.scenario.toml_file import BUILTIN, SpecError, builtin_names, read_scenario

WHOLE = """\
name = "evening"
description = "what it is for"
duration = "90s"
warm_up = "3s"
verify = "after"
seed = 7
timeout = "20s"
[topic]
name = "orders"
partitions = 6
replication_factor = 1
keep = true
[topic.configs]
"segment.bytes" = 1048576
[[users]]
kind = "producer"
name = "writers"
count = 30
rate = { profile = "ramp", from = "10/s", to = "100/s", over = "30s" }
engine = "librdkafka"
acks = "all"
codec = "zstd"
idempotent = true
records = 5
[users.payload]
kind = "sizes"
min = "64 B"
max = "1 KB"
distribution = "uniform"
entropy = 0.5
[users.keys]
kind = "zipf"
count = 500
s = 1.1
size = 12
[[users]]
kind = "group-member"
count = 4
rate = "6/min"
static = true
churn = "kill"
churn_every = "20s"
[thresholds]
lateness_p99_ms = 5
[thresholds.Produce]
p99_ms = 20
rate_least = 50
"""
SHORT = '[[users]]\nkind = "producer"\n'


def read(tmp_path: Path, text: str, overrides: Mapping[str, str] | None = None) -> Scenario:
    (tmp_path / "s.toml").write_text(text)
    return read_scenario(tmp_path / "s.toml", overrides)


def user(tmp_path: Path, lines: str) -> UserSpec:
    """Return the one entry of a scenario."""
    return read(tmp_path, f"[[users]]\n{lines}\n").users[0]


def test_every_key_arrives(tmp_path: Path) -> None:
    """If this fails, a key of a scenario is read and then ignored: another load is measured than the file describes."""
    scenario = read(tmp_path, WHOLE)
    member = {each.name: each.default for each in KINDS["group-member"].options}
    assert scenario == Scenario(
        "evening",
        "what it is for",
        90.0,
        3.0,
        TopicSpec("orders", 6, 1, {"segment.bytes": "1048576"}, True),
        (
            UserSpec(
                "producer",
                "writers",
                30,
                RateProfile.ramp(10, 100, 30),
                "librdkafka",
                Payload("sizes", 0, 64, 1000, "uniform", entropy=0.5),
                Keys("zipf", 500, 1.1, 12),
                "all",
                "zstd",
                True,
                5,
                {"in_flight": 1000, "linger_ms": 5, "batch_bytes": 1_000_000},
            ),
            UserSpec(
                "group-member",
                "group-member",
                4,
                RateProfile.constant(0.1),
                options={**member, "static": True, "churn": "kill", "churn_every": 20.0},
            ),
        ),
        (
            Threshold("Produce", "p99_ms", most=20.0),
            Threshold("Produce", "rate", least=50.0),
            Threshold("", "lateness_p99_ms", most=5.0),
        ),
        "after",
        None,
        7,
        20.0,
    )


def test_a_scenario_goes_to_another_process(tmp_path: Path) -> None:
    """If this fails, workers perform another scenario than the conductor read."""
    (tmp_path / "lines").write_bytes(b"a\r\n\nb\xff\n")
    json = '[[users]]\nkind = "producer"\nname = "j"\n[users.payload]\nkind = "json"\n' + (
        'fields.a = { kind = "choice", values = [1, "x"] }\n'
    )
    lines = '[[users]]\nkind = "hot-key"\nname = "f"\npayload = { kind = "file", path = "lines" }\n'
    churn = '[[users]]\nkind = "admin-churn"\n'
    found = [read_scenario(name) for name in builtin_names()]
    found.append(read(tmp_path, WHOLE + json + lines + churn))
    found.append(read(tmp_path, SHORT + '[search]\noperation = "Produce"\nbound = "5ms"\nfrom = "10/s"\nto = "99/s"\n'))
    assert found[-2].users[3].payload.lines == (b"a", b"b\xff")
    for scenario in found:
        assert scenario_of(msgpack.unpackb(msgpack.packb(state_of(scenario)))) == scenario


def test_a_search_sets_the_one_rate(tmp_path: Path) -> None:
    """If this fails, the run does not know whose rate the search changes, or how long it takes."""
    text = SHORT + (
        '[search]\noperation = "Produce"\npercentile = 99.9\nbound = "5ms"\nfrom = "100/s"\nto = "800/s"\nfactor = 2\n'
        'hold = "4s"\nprecision = 0.25\n[[users]]\nkind = "consumer"\n'
    )
    scenario = read(tmp_path, text)
    assert scenario.search == Search("Produce", 99.9, 5.0, 100.0, 800.0, 2.0, 4.0, 0.25)
    assert [each.rate for each in scenario.users] == [RateProfile.constant(100), None]
    assert scenario.seconds == (4 + 2) * 4  # 100, 200, 400, 800, and two halvings


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        (WHOLE.replace("warm_up", "warmup"), "s.toml:4: warmup: unknown key; did you mean 'warm_up'? (allowed:"),
        (WHOLE.replace('"90s"', '"0s"'), "s.toml:3: duration: '0s' is out of range (allowed: 0.1 s to"),
        (WHOLE.replace('"90s"', '"-1s"'), "s.toml:3: duration: '-1s' is not a duration"),
        (WHOLE.replace('"90s"', "90"), "s.toml:3: duration: 90 is not a duration (a number and its unit, for example"),
        (WHOLE.replace('"90s"', '"99999h"'), "s.toml:3: duration: '99999h' is out of range"),
        (WHOLE.replace('"after"', '"aftr"'), "s.toml:5: verify: 'aftr' is not allowed; did you mean 'after'? (allowed"),
        (WHOLE.replace("seed = 7", "seed = -1"), "s.toml:6: seed: -1 is out of range (allowed: 0 to"),
        (WHOLE.replace('"evening"', '"ev/ening"'), "s.toml:1: name: 'ev/ening' is not a name"),
        (WHOLE.replace('"orders"', '"or ders"'), "s.toml:9: topic.name: 'or ders' is not a name (allowed: 1 to 249"),
        (WHOLE.replace('"orders"', '"__orders"'), "s.toml:9: topic.name: '__orders' is the name of an internal topic"),
        (WHOLE.replace("partitions = 6", "partitions = 10001"), "s.toml:10: topic.partitions: 10001 is out of range"),
        (WHOLE.replace("factor = 1", "factor = 0"), "s.toml:11: topic.replication_factor: 0 is out of range"),
        (WHOLE.replace('"segment.bytes"', "segment.bytes"), "topic.configs.segment: {'bytes': 1048576} is not a value"),
        (WHOLE.replace('"segment.bytes" = 1', '"cleanup.policy" = "compact" # '), "s.toml:14: topic.configs.cleanup.p"),
        (WHOLE.replace('"producer"', '"prodcer"'), "s.toml:16: users[0].kind: 'prodcer' is not allowed; did you mean"),
        (WHOLE.replace("count = 30", "count = 0"), "s.toml:18: users[0].count: 0 is out of range (allowed: 1 to 10000"),
        (WHOLE.replace("count = 30", "count = 99998"), "s.toml:15: users: 100002 users in all (allowed: up to 100000)"),
        (WHOLE.replace('"ramp"', '"rmp"'), "s.toml:19: users[0].rate.profile: 'rmp' is not allowed; did you mean 'ram"),
        (WHOLE.replace('over = "30s"', 'ovr = "30s"'), "s.toml:19: users[0].rate.over: is missing"),
        (WHOLE.replace('"100/s"', '"100"'), "s.toml:19: users[0].rate.to: '100' has the unit '' (allowed: /s, /min, /"),
        (WHOLE.replace('"100/s"', '"1000000000/s"'), "users[0].rate.to: '1000000000/s' is out of range"),
        (WHOLE.replace('"librdkafka"', '"rdkafka"'), "s.toml:20: users[0].engine: 'rdkafka' is not allowed; did you m"),
        (WHOLE.replace('acks = "all"', "acks = 0"), "s.toml:21: users[0].acks: 0 cannot be idempotent (allowed: \"all"),
        (WHOLE.replace('acks = "all"', "acks = 1"), "s.toml:21: users[0].acks: 1 cannot be idempotent"),
        (WHOLE.replace('acks = "all"', "acks = 2"), "s.toml:21: users[0].acks: 2 is not allowed (allowed: \"all\", 1,"),
        (WHOLE.replace("records = 5", "connections = 5"), "s.toml:24: users[0].connections: is not an option of the e"),
        (WHOLE.replace('"librdkafka"', '"raw"').replace('"producer"', '"hot-key"'), "s.toml:20: users[0].engine: 'raw"),
        (
            WHOLE.replace('"librdkafka"', '"raw"').replace("idempotent = true", "").replace('"all"', '"1"'),
            "s.toml:21: users[0].acks: 1: the engine raw is idempotent when it is verified",
        ),
        (WHOLE.replace("records = 5", "records = 0"), "s.toml:24: users[0].records: 0 is out of range (allowed: 1 to"),
        (WHOLE.replace("records = 5", "records = 100000").replace('"1 KB"', '"1 MB"'), "exceed 104857600 B, the large"),
        (WHOLE.replace('"64 B"', '"31 B"'), "s.toml:27: users[0].payload.min: 31 B is less than the 32 B that identif"),
        (WHOLE.replace('"64 B"', '"2 KB"'), "s.toml:27: users[0].payload.min: 2000 B is above max, 1000 B"),
        (WHOLE.replace("entropy = 0.5", "entropy = 1.5"), "s.toml:30: users[0].payload.entropy: 1.5 is not a number"),
        (WHOLE.replace('"zipf"', '"zpf"'), "s.toml:32: users[0].keys.kind: 'zpf' is not allowed; did you mean 'zipf'?"),
        (WHOLE.replace('"zipf"', '"none"'), "s.toml:33: users[0].keys.count: unknown key (allowed: kind)"),
        (WHOLE.replace("count = 500", "count = 1000001"), "s.toml:33: users[0].keys.count: 1000001 is out of range"),
        (WHOLE.replace("size = 12", "size = 2"), "s.toml:33: users[0].keys.count: 500 keys need more than 2 digits"),
        (WHOLE.replace("count = 4", 'name = "writers"'), "s.toml:38: users[1].name: 'writers' is the name of another"),
        (WHOLE.replace("count = 4", 'name = "Writers"'), "users[1].name: 'Writers' is too similar to 'writers'"),
        (WHOLE.replace('"kill"', '"leave"'), "s.toml:41: users[1].churn: static members never leave their group"),
        (
            WHOLE + '[[users]]\nkind = "group-member"\nname = "n"\nprotocol = "consumer"\nsession_timeout_ms = 9000\n',
            "users[2].session_timeout_ms: has no effect: protocol is \"consumer\"",
        ),
        (
            WHOLE + '[[users]]\nkind = "group-member"\nname = "n"\nprotocol = "share"\n',
            "users[2].protocol: 'share' is not allowed",
        ),
        (
            WHOLE + '[[users]]\nkind = "share-consumer"\nrelease_share = 0.7\nreject_share = 0.4\n',
            "users[2].reject_share: 0.4 and release_share, 0.7, are more than 1 together",
        ),
        (
            WHOLE + '[[users]]\nkind = "share-consumer"\nrelease_share = 1.5\n',
            "users[2].release_share: 1.5 is not a number",
        ),
        (
            WHOLE + '[[users]]\nkind = "share-consumer"\ncount = 501\n',
            "users[2].count: 501 is too many for share-consumer (allowed: 1 to 500)",
        ),
        (
            WHOLE + '[[users]]\nkind = "share-consumer"\nsession_timeout_ms = 9000\n',
            "users[2].session_timeout_ms: is not a key of kind 'share-consumer'",
        ),
        (WHOLE.replace('"kill"', '"none"'), "s.toml:42: users[1].churn_every: has no effect: churn is \"none\""),
        (WHOLE.replace("churn_every", "rejoin_aftr"), "users[1].rejoin_aftr: unknown key; did you mean 'rejoin_after'"),
        (WHOLE.replace("churn_every", "pause_for"), "s.toml:42: users[1].pause_for: has no effect: churn is \"kill\""),
        (WHOLE.replace("static = true", "groups = 5"), "s.toml:40: users[1].groups: 5 for 4 users (allowed: 1 to 4)"),
        (WHOLE.replace("static = true", 'engine = "raw"'), "users[1].engine: is not a key of kind 'group-member' (all"),
        (WHOLE.replace("static = true", "heartbeat_interval_ms = 10000"), "is not below session_timeout_ms, 10000"),
        (WHOLE.replace("lateness_p99", "lateness_p9"), "thresholds.lateness_p9_ms: unknown key; did you mean 'latenes"),
        (WHOLE.replace("[thresholds.Produce]", "[thresholds.Prodcue]"), "s.toml:45: thresholds.Prodcue: no users of"),
        (WHOLE.replace("p99_ms = 20", "p98_ms = 20"), "s.toml:46: thresholds.Produce.p98_ms: unknown key; did you mea"),
        (WHOLE.replace("p99_ms = 20", "p99_ms = -1"), "s.toml:46: thresholds.Produce.p99_ms: -1 is not a number from"),
        (WHOLE.replace('"after"', '"off"').replace("lateness_p99_ms", "lost"), "s.toml:44: thresholds.lost: is not me"),
        (WHOLE + "[search]\n", "s.toml:3: duration: has no effect beside [search]"),
        ("", "s.toml:1: users: 0 entries [[users]] (allowed: 1 to 100)"),
        ("users = 3", "s.toml:1: users: 3 is not an array of tables"),
        ("[[users]]", "s.toml:1: users[0].kind: is missing"),
        ("[[users]\n", "s.toml:1: not TOML"),
        (SHORT + '[search]\noperation = "Fetch"', "s.toml:4: search.operation: 'Fetch' is not allowed (allowed: Produ"),
        (
            f'{SHORT}name = "a"\n{SHORT}name = "b"\n'
            '[search]\noperation = "Produce"\nbound = "1ms"\nfrom = "1/s"\nto = "2/s"',
            "s.toml:7: search: a search sets the rate of one entry, not of 2: a, b",
        ),
        (
            SHORT + '[search]\noperation = "Produce"\nbound = "1ms"\nfrom = "2/s"\nto = "2/s"',
            "s.toml:7: search.to: 2/s is not above from, 2/s",
        ),
    ],
)  # fmt: skip
def test_a_wrong_scenario_is_refused_at_its_line(tmp_path: Path, wrong: str, reported: str) -> None:
    """If this fails, a user who mistypes a key gets the figures of another scenario, or an error without its place."""
    with pytest.raises(SpecError, match=re.escape(reported)):
        read(tmp_path, wrong)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ('kind = "producer"\npayload = { size = "31 B" }', "s.toml:3: users[0].payload.size: 31 B is less than the 32"),
        ('kind = "probe"\npayload = { size = "8 B" }', "payload.size: 8 B is less than the 32 B"),
        ('kind = "probe"\npartitions = 5', "s.toml:3: users[0].partitions: 5 of the topic's 4 (allowed: 0 to that)"),
        ('kind = "producer"\npayload = { kind = "json" }', "users[0].payload.fields: 0 fields (allowed: 1 to 1000)"),
        (
            'kind = "producer"\nengine = "raw"\npayload = { kind = "json", fields = { a = { kind = "uuid" } } }',
            "s.toml:3: users[0].engine: 'raw' sends values encoded beforehand",
        ),
        ('kind = "producer"\npayload = { kind = "file", path = "nowhere" }', "nowhere' cannot be read: No such file"),
        ('kind = "hot-key"\nkeys = { kind = "uniform", count = 5 }', "'uniform' is not allowed for kind \"hot-key\""),
        ('kind = "slow-consumer"', "users[0].records_per_second: give either records_per_second or delay_ms"),
        ('kind = "slow-consumer"\ndelay_ms = 5\nrecords_per_second = 5', "s.toml:4: users[0].records_per_second: give"),
        ('kind = "transactional-copier"', "s.toml:2: users[0].kind: a copier has nothing to copy without a producer"),
        ('kind = "transactional-copier"\nacks = 1', "users[0].acks: is not a key of kind 'transactional-copier' (allo"),
        ('kind = "admin-churn"\noperations = []', "users[0].operations: [] is not a list (allowed: one or more of cre"),
        ('kind = "admin-churn"\noperations = ["delete-topic"]', "'delete-topic' acts on topics of this entry: it need"),
        ('kind = "admin-churn"\noperations = ["create-topc"]', "'create-topc' is not allowed; did you mean 'create-to"),
        ('kind = "connection-storm"\nhold = "-1s"', "users[0].hold: '-1s' is not a duration"),
        ('kind = "producer"\nrate = "0/s"', "users[0].rate: '0/s' is out of range (allowed: above 0/s"),
        ('kind = "producer"\nrate = 5', "users[0].rate: 5 is not a rate (a number and one of /s, /min, /h, for exampl"),
        ('kind = "producer"\nrate = "0/s to 0/s over 5s"', "users[0].rate: '0/s to 0/s over 5s' is never above 0/s"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused(tmp_path: Path, wrong: str, reported: str) -> None:
    """If this fails, a run starts although no user or engine can perform the scenario."""
    with pytest.raises(SpecError, match=re.escape(reported)):
        user(tmp_path, wrong)


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ('a = { kind = "it" }', "a.kind: 'it' is not allowed; did you mean 'int'?"),
        ('a = { kind = "int" }', "a.max: is missing"),
        ('a = { kind = "int", min = 2, max = 1 }', "a.min: 2 is above max, 1"),
        ('a = { kind = "choice", values = [1], weights = [1, 2] }', "a.weights: 2 weights for 1 values"),
        ('a = { kind = "choice", values = [1], weights = [0] }', "a.weights: [0]: one weight at least must be above 0"),
        ('a = { kind = "constant", value = nan }', "a.value: nan has no form in JSON"),
        ('a = { kind = "constant", value = 2020-01-01 }', "a.value: datetime.date(2020, 1, 1) has no form in JSON"),
        ('a = { kind = "uuid", of = 3 }', "a.of: unknown key (allowed: kind)"),
        ("a = 3", "a: 3 is not a table"),
    ],
)
def test_a_wrong_field_is_refused(tmp_path: Path, fields: str, reported: str) -> None:
    """If this fails, records differ from the scenario's definition, or the run fails when it makes the first one."""
    with pytest.raises(SpecError, match=re.escape(f"s.toml:6: users[0].payload.fields.{reported}")):
        user(tmp_path, f'kind = "producer"\n[users.payload]\nkind = "json"\n[users.payload.fields]\n{fields}')


ODD = (
    '"\\u0000"', "0", "-1", "9223372036854775808", "nan", "true", "[]", "[[[]]]", "{}", "{ a = 1 }", "2020-01-01",
    '"99999999999999999999 s"', '"0 s"', '["0s", "1/s"]',
)  # fmt: skip
PROFILE_LINES = """\
[users.rate]
profile = "spike"
base = "1/s"
peak = "2/s"
at = "1s"
for = "1s"
every = "9s"
"""


def test_no_value_is_a_traceback(tmp_path: Path) -> None:
    """If this fails, a wrong value of some key ends the command with a traceback instead of a line of the file."""
    json = '[[users]]\nkind = "producer"\nname = "j"\n[users.payload]\nkind = "json"\n[users.payload.fields.f]\n' + (
        'kind = "int"\nmin = 1\nmax = 2\n[users.payload.fields.g]\nkind = "choice"\nvalues = [1]\nweights = [1]\n'
    )
    points = '[users.rate]\nprofile = "points"\npoints = [["0s", "1/s"], ["1s", "1/s"]]\n'
    search = (
        '[search]\noperation = "Produce"\npercentile = 99\nbound = "5ms"\nfrom = "1/s"\nto = "9/s"\nprecision = 0.1\n'
    )
    texts = [WHOLE + json, SHORT + PROFILE_LINES, SHORT + points, SHORT + search]
    texts += [f'[[users]]\nkind = "{kind.name}"\n{each.name} = 1\n' for kind in KINDS.values() for each in kind.options]
    accepted, refused = 0, []
    for text in texts:
        lines = text.splitlines()
        for at, line in enumerate(lines):
            key, equals, _ = line.partition(" = ")
            for odd in ODD if equals else ():
                try:
                    read(tmp_path, "\n".join([*lines[:at], f"{key} = {odd}", *lines[at + 1 :]]))
                    accepted += 1
                except SpecError as error:
                    refused.append(str(error))
    assert accepted > 0
    assert len(refused) > 10 * accepted
    assert all(re.search(r"s\.toml:\d+: \S+: .", each) for each in refused)


@pytest.mark.parametrize("name", sorted(path.stem for path in BUILTIN.glob("*.toml")))
def test_builtin_scenarios_are_whole(name: str) -> None:
    """If this fails, `broker-load run --scenario NAME` does not start, or has no thresholds."""
    scenario = read_scenario(name)
    assert scenario.name == name
    assert scenario.description
    assert scenario.thresholds


def test_a_scenario_that_is_not_there() -> None:
    """If this fails, a mistyped name causes a traceback, or the error does not list the scenarios."""
    with pytest.raises(SpecError, match="mixd: neither a file nor a scenario of the tool; did you mean 'mixed'"):
        read_scenario("mixd")
    assert builtin_names() == [
        "connection-storm",
        "consume-throughput",
        "group-churn",
        "hot-key",
        "mixed",
        "produce-throughput",
        "share-group",
        "soak",
        "transactions",
    ]
