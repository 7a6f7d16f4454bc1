"""`broker-streams replay`: a changed application takes over with the state that its history gives."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from broker_streams import LONG, TopologyTestDriver
from broker_streams.application import load
from broker_streams.offline import cut
from tests.broker_streams.commands.cluster import COUNTS, Cluster, committed, invoke, until
from tests.support.kafka_peer import KafkaPeer

VALUES = ("a", "b", "a", "c", "a")
EXPECTED = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]
# Windows that are passed on when they close, at one record and after some.
WINDOWS = """\
from broker_streams import LONG, STRING, EmitStrategy, SessionWindows, StreamsBuilder, Suppressed, TimeWindows

builder = StreamsBuilder()
records = builder.stream("{inputs}", key=STRING, value=STRING)
closed = records.group_by_key().windowed_by(TimeWindows.of(5).grace(2)).emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
buffered = records.group_by_key().windowed_by(TimeWindows.of(4).grace(1)).count()
counts = [("closed", closed.count()), ("buffered", buffered.suppress(Suppressed.until_window_closes()))]
for name, table in counts:
    named = table.to_stream().map(lambda window, count, name=name: (f"{{name}}-{{window.window.start_ms}}", count))
    named.to("{outputs}", key=STRING, value=LONG)
config = {{
    "application.id": "{name}",
    "bootstrap.servers": "{bootstrap}",
    "default.key.serde": STRING,
    "default.value.serde": STRING,
    # Results that became final are passed on at once, as in the test driver.
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}}
"""
# c counts as a.
CHANGED = COUNTS.replace("lambda key, value: value", "lambda key, value: 'a' if value == 'c' else value")


def test_a_changed_application_takes_over(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, the new version has other counts than its history gives, or results are lost or doubled."""
    take_over(cluster, tmp_path, "takeover")


@pytest.mark.full
def test_a_changed_application_takes_over_on_kafka(live_kafka: KafkaPeer, tmp_path: Path) -> None:
    """If this fails, Kafka's coordinator loses the offsets of an application that joins for the first time."""
    take_over(Cluster(live_kafka.bootstrap), tmp_path, "takeover-on-kafka")


def take_over(cluster: Cluster, tmp_path: Path, name: str) -> None:
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", *VALUES)
    old = cluster.application(tmp_path, name)
    (tmp_path / "new").mkdir()
    new = cluster.application(tmp_path / "new", name, CHANGED)
    cluster.run(old, EXPECTED)
    before = {key: at for key, at in cluster.offsets(name).items() if "-in-" in key}

    dry = invoke("replay", new, "--application-id", f"{name}-2", "--dry-run", "--json")
    assert dry.exit_code == 0, dry.output
    (topic,) = json.loads(dry.output)["topics"]
    assert (topic["topic"], topic["compared"], topic["counts"]) == (
        f"{name}-out", "last", {"different": 1, "unexpected": 1},
    )  # fmt: skip
    assert {each["kind"]: each["written"]["value"] for each in topic["deviations"]} == {"different": 3, "unexpected": 1}
    assert len(cluster.topics(f"{name}-")) == 4

    done = invoke("replay", new, "--application-id", f"{name}-2", "--yes", "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.output)
    assert len(made["created_topics"]) == 2
    changelog = next(each for each in made["created_topics"] if each.endswith("-changelog"))
    assert made["written"] == len(VALUES)
    # The past was written once, by the old version.
    assert cluster.counts(f"{name}-out") == EXPECTED
    taken = {key: at for key, at in cluster.offsets(f"{name}-2").items() if "-in-" in key}
    assert before.items() <= taken.items()

    # a has three records of a, and one of c.
    cluster.write(f"{name}-in", "a", "b")
    cluster.run(new, sorted([*EXPECTED, ("a", 5), ("b", 2)]), application_id=f"{name}-2")

    assert invoke("verify", new, "-X", f"application.id={name}-2", "--topic", changelog).exit_code == 0

    again = invoke("replay", new, "--application-id", f"{name}-2", "--yes")
    assert again.exit_code == 2
    assert "choose another --application-id" in again.output

    reset = invoke("reset", new, "--application-id", f"{name}-2", "--yes", "--json")
    assert reset.exit_code == 0, reset.output
    assert set(json.loads(reset.output)["deleted_topics"]) == set(made["created_topics"])
    assert cluster.topics(f"{name}-2") == []


def test_live_from_a_point_without_an_old_version(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, results of the past are written, or the state lacks a part of it."""
    name = "fresh"
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", *VALUES)
    path = cluster.application(tmp_path, name)
    assert invoke("replay", path, "--application-id", f"{name}-2", "--until", "latest", "--dry-run").exit_code == 2
    done = invoke("replay", path, "--application-id", f"{name}-2", "--until", "latest", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["processed"] == len(VALUES)
    cluster.write(f"{name}-in", "a", "b")
    cluster.run(path, [("a", 4), ("b", 2)], application_id=f"{name}-2")


@pytest.mark.parametrize("until", [3, 10, 11])
def test_windows_go_on_where_history_ends(cluster: Cluster, tmp_path: Path, until: int) -> None:
    """If this fails, the new version forgets stream time or what waits, and passes windows on twice or never."""
    name, total = f"windows-{until}", 25
    cluster.create(f"{name}-in", f"{name}-out")
    path = cluster.application(tmp_path, name, WINDOWS)
    # All in one partition, so the test driver has the same order.
    cluster.write(f"{name}-in", *"x" * until, keys="k" * until)
    done = invoke("replay", path, "--application-id", f"{name}-2", "--until", "latest", "--yes")
    assert done.exit_code == 0, done.output
    cluster.write(f"{name}-in", *"x" * (total - until), keys="k" * (total - until), first_ms=until)

    application = load(path)
    with TopologyTestDriver(application.topology, application.config) as driver:
        records = driver.create_input_topic(f"{name}-in")
        results = driver.create_output_topic(f"{name}-out", value=LONG)
        for at in range(total):
            if at == until:
                results.read_records()
            records.pipe_input("k", "x", at)
        expected = sorted(results.read_key_values())
    assert {key.partition("-")[0] for key, _ in expected} == {"closed", "buffered"}
    cluster.run(path, expected, application_id=f"{name}-2")


def test_the_old_version_finishes_its_repartition_topics_first(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, results of records that the old version had read are never written."""
    name = "left"
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", *VALUES)
    path = cluster.application(tmp_path, name)
    cluster.run(path, EXPECTED)
    # A record that it has read, and a later one that it has not.
    repartition = next(each for each in cluster.topics(f"{name}-") if each.endswith("-repartition"))
    cluster.write(repartition, "a", keys=("a",))
    cluster.write(f"{name}-in", "b")
    monkeypatch.setattr(cut, "PATIENCE_S", 2.0)
    for command in (("verify", path), ("replay", path, "--application-id", f"{name}-2", "--yes")):
        refused = invoke(*command)
        assert refused.exit_code == 1, refused.output
        assert f"application {name}: 1 records wait in its repartition topics" in refused.output
    # What an interrupted replay leaves: topics without offsets.
    cluster.create(repartition.replace(name, f"{name}-2"))
    done = invoke("replay", path, "--application-id", f"{name}-2", "--yes", "--drain", path)
    assert done.exit_code == 0, done.output
    assert cluster.counts(f"{name}-out") == sorted([*EXPECTED, ("a", 4)])
    # The state is that of the recorded input.
    cluster.run(path, sorted([*EXPECTED, ("a", 4), ("b", 2)]), application_id=f"{name}-2")


def test_a_running_version_is_not_taken_over(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, two versions write the same results."""
    name = "busy"
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", *VALUES)
    path = cluster.application(tmp_path, name)

    async def job() -> None:
        async with cluster.running(path) as client:
            await until(client, path, EXPECTED)
            shown = await asyncio.to_thread(invoke, "replay", path, "--application-id", f"{name}-2", "--yes")
            assert shown.exit_code == 1, shown.output
            assert "it has 1 member: stop it first, or use --dry-run" in shown.output
            dry = await asyncio.to_thread(invoke, "replay", path, "--application-id", f"{name}-2", "--dry-run")
            assert dry.exit_code == 0, dry.output
            assert "nothing was written" in dry.output
            assert await committed(client, f"{name}-out") == EXPECTED

    asyncio.run(job())
    assert cluster.topics(f"{name}-2") == []


def test_a_wrong_takeover_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, a mistyped name starts an application without state."""
    name = "wrong"
    cluster.create(f"{name}-in", f"{name}-out")
    path = cluster.application(tmp_path, name)
    for arguments, message in (
        (("--application-id", name), f"--application-id {name} is the old application"),
        (("--application-id", f"{name}-2"), "application wrong: it does not exist: name the old one with --old"),
        (("--application-id", f"{name}-2", "--dry-run"), "application wrong: it has committed nothing"),
    ):
        shown = invoke("replay", path, "--yes", *arguments)
        assert shown.exit_code == 2, shown.output
        assert message in shown.output
    assert len(cluster.topics(f"{name}-")) == 2
