"""`broker-streams reset`, beside Kafka's kafka-streams-application-reset and kafka-streams-groups."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.broker_streams.commands.cluster import PARTITIONS, Cluster, invoke
from tests.support import kafka_tools, needs

ONCE = [("a", 1), ("a", 2), ("b", 1)]
INTERNAL = (
    "KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog",
    "KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
)


def ran(cluster: Cluster, folder: Path, name: str) -> Path:
    """An application that has processed three records, and stopped."""
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", "a", "b", "a")
    path = cluster.application(folder, name)
    cluster.run(path, ONCE)
    return path


def test_an_application_begins_again(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, an application that was reset goes on with old offsets or with old counts."""
    path = ran(cluster, tmp_path, "again")
    state = tmp_path / "state" / "again" / "0_0"
    state.mkdir(parents=True)
    before = cluster.offsets("again")
    where = ("--state-dir", tmp_path / "state")

    shown = invoke("reset", path, "--dry-run", "--json", *where)
    assert shown.exit_code == 0, shown.output
    plan = json.loads(shown.output)
    assert plan["deleted_topics"] == [f"again-{each}" for each in INTERNAL]
    assert sum(each["old"] or 0 for each in plan["offsets"]) == 3
    assert [each["new"] for each in plan["offsets"]] == [0] * PARTITIONS
    assert (cluster.offsets("again"), state.is_dir()) == (before, True)

    refused = invoke("reset", path, *where)
    assert (refused.exit_code, state.is_dir()) == (4, True)
    assert "add --yes" in refused.output

    done = invoke("reset", path, "--yes", *where)
    assert done.exit_code == 0, done.output
    assert cluster.offsets("again") == {f"again-in-{number}": 0 for number in range(PARTITIONS)}
    assert cluster.topics("again-") == ["again-in", "again-out"]
    assert not state.exists()
    cluster.run(path, sorted(ONCE * 2))


def test_a_running_application_is_not_reset(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, the topics of a running application are deleted under it."""
    name = "alive"
    path = ran(cluster, tmp_path, name)

    async def job() -> None:
        async with cluster.running(path) as client:
            async with asyncio.timeout(60):
                while not (await client.groups.describe([name])).whole()[name].members:
                    await asyncio.sleep(0.05)
            # In a thread: the command has a loop of its own.
            shown = await asyncio.to_thread(invoke, "reset", path, "--yes")
            assert shown.exit_code == 1
            assert "with 1 member" in shown.output

    asyncio.run(job())
    assert len(cluster.topics(f"{name}-")) == 4


def test_by_the_id_and_to_other_offsets(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, an application whose file is elsewhere cannot be reset, or not to the offset that is asked for."""
    ran(cluster, tmp_path, "by-id")
    ran(cluster, tmp_path, "by-id-eu")
    at = ("reset", "by-id", "--bootstrap", cluster.bootstrap, "--state-dir", tmp_path, "--yes", "--json")
    ends = cluster.offsets("by-id")
    inputs = {key: offset for key, offset in ends.items() if key.startswith("by-id-in")}

    latest = json.loads(invoke(*at, "--to-latest", "--internal-topics", f"by-id-{INTERNAL[0]}").output)
    assert latest["deleted_topics"] == [f"by-id-{INTERNAL[0]}"]
    at_the_end = {f"{each['topic']}-{each['partition']}": each["new"] for each in latest["offsets"]}
    assert inputs.items() <= at_the_end.items()
    csv = tmp_path / "offsets.csv"
    csv.write_text("".join(f"{topic},{number},1\n" for topic in ("by-id-in",) for number in range(PARTITIONS)))
    listed = json.loads(invoke(*at, "--from-file", csv).output)
    assert [each["new"] for each in listed["offsets"]] == [min(1, each["end"]) for each in listed["offsets"]]
    # The topics of by-id-eu begin with the id too.
    assert listed["deleted_topics"] == [f"by-id-{INTERNAL[1]}"]
    assert len(cluster.topics("by-id-eu-")) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("missing",), 2, "group missing: the group does not exist: name --input-topics, or give APP.py"),
        (("missing", "--input-topics", "nowhere"), 1, "nowhere"),
        (("missing", "--to-earliest", "--to-latest"), 2, "--to-earliest, --to-latest exclude each other"),
        (("..", "--input-topics", ""), 2, "application id '..' is no name of a directory"),
        (("missing", "--by-duration", "P1"), 2, "expected PnDTnHnMn.nS"),
    ],
)
def test_a_wrong_reset_is_refused(cluster: Cluster, arguments: tuple[str, ...], code: int, message: str) -> None:
    """If this fails, a wrong name or option resets something else, or ends without its reason."""
    shown = invoke("reset", *arguments, "--bootstrap", cluster.bootstrap, "--yes")
    assert shown.exit_code == code, shown.output
    assert message in shown.output


@needs.java
@pytest.mark.full
def test_the_same_offsets_and_topics_as_after_kafkas_tools(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, an application that was reset with Kafka's tool and one with ours begin in different states."""
    for name in ("ours", "groups"):
        # Both partitions have records: Kafka's tool resets those with committed offsets only.
        cluster.create(f"{name}-in", f"{name}-out")
        cluster.write(f"{name}-in", *"a" * 12)
        cluster.run(cluster.application(tmp_path, name), [("a", count) for count in range(1, 13)])
        assert len([key for key in cluster.offsets(name) if key.startswith(f"{name}-in")]) == PARTITIONS
    at = ("--bootstrap-server", cluster.bootstrap)
    reset = ("--reset-offsets", "--all-input-topics", "--to-earliest", "--execute", "--delete-all-internal-topics")
    kafka_tools.run_tool("org.apache.kafka.tools.streams.StreamsGroupCommand", *at, "--group", "groups", *reset)
    assert invoke("reset", "ours", *at, "--yes", "--state-dir", tmp_path).exit_code == 0

    def found(name: str) -> tuple[dict[str, int], list[str]]:
        offsets = {key.removeprefix(name): offset for key, offset in cluster.offsets(name).items()}
        return offsets, [topic.removeprefix(name) for topic in cluster.topics(f"{name}-")]

    assert found("ours") == found("groups")
    assert found("ours")[0] == {f"-in-{number}": 0 for number in range(PARTITIONS)}


@needs.java
@pytest.mark.full
def test_the_same_topics_as_kafkas_older_tool(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, we leave an internal topic that kafka-streams-application-reset deletes, or delete another one."""
    name = "resetter"
    parts = ["KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", "x-subscription-response-topic",
             "x-changelog", "x-repartition", "x-topic", "changelog-x"]  # fmt: skip
    names = [f"{name}-{each}" for each in parts]
    cluster.create(f"{name}-in", *names)
    options = ("--application-id", name, "--input-topics", f"{name}-in", "--bootstrap-server", cluster.bootstrap)
    ours = invoke("reset", name, *options[2:], "--dry-run", "--json", "--state-dir", tmp_path)
    assert ours.exit_code == 0, ours.output
    kafka_tools.run_tool("org.apache.kafka.tools.StreamsResetter", *options, "--force")
    left = set(cluster.topics(f"{name}-"))
    assert set(json.loads(ours.output)["deleted_topics"]) == set(names) - left
    assert f"{name}-in" in left
    assert len(left) == 3
