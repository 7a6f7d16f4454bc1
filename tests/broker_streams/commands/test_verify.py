"""`broker-streams verify`: a proof that each result was written exactly once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker_cy.wire.records import Record
from broker_streams import LONG
from tests.broker_streams.commands.cluster import COUNTS, Cluster, invoke

VALUES = ("a", "b", "a", "c", "a")
EXPECTED = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]
CHANGELOG = "KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"
# Without a repartition topic and state: records are determined with their order.
PLAIN = COUNTS.replace(
    'grouped = builder.stream("{inputs}", key=STRING, value=STRING).group_by(lambda key, value: value)\n'
    'grouped.count().to_stream().to("{outputs}", key=STRING, value=LONG)\n',
    'lengths = builder.stream("{inputs}", key=STRING, value=STRING).map_values(lambda value: len(value))\n'
    'lengths.to("{outputs}", key=STRING, value=LONG)\n',
)


def ran(cluster: Cluster, folder: Path, name: str, text: str = COUNTS, expected: Any = EXPECTED) -> Path:
    cluster.create(f"{name}-in", f"{name}-out")
    cluster.write(f"{name}-in", *VALUES)
    path = cluster.application(folder, name, text)
    cluster.run(path, expected)
    return path


def write(cluster: Cluster, topic: str, key: str, value: int, at: int, partition: int) -> None:
    """Write a result as the application does."""

    async def job() -> None:
        record = Record(timestamp=at, key=key.encode(), value=LONG.serialize(topic, value))
        async with cluster.client() as client:
            await client.records.producer().send(topic, [record], partition=partition)

    asyncio.run(job())


def found(path: Path, code: int) -> dict[str, Any]:
    shown = invoke("verify", path, "--json")
    assert shown.exit_code == code, shown.output
    answer = json.loads(shown.output)
    assert answer["proven"] is (code == 0)
    return {each["topic"]: each for each in answer["topics"]} | {"processed": answer["processed"]}


def test_a_table_is_compared_by_its_last_values(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, a correct application is blamed, or a wrong count is not found."""
    path = ran(cluster, tmp_path, "proof")
    answer = found(path, 0)
    assert answer["processed"] == len(VALUES)
    topic, changelog = answer["proof-out"], answer[f"proof-{CHANGELOG}"]
    assert (topic["verdict"], topic["compared"], topic["written"], topic["recomputed"]) == ("equal", "last", 5, 5)
    assert "several tasks write to a repartition topic" in topic["reason"]
    assert (changelog["verdict"], changelog["compared"]) == ("equal", "last")
    assert found_text(path).endswith("equal; a result that was written twice would not show in proof-out\n")

    # One result too many, of another client. All partitions get it, so the one of the key has it too.
    for partition in range(2):
        write(cluster, "proof-out", "b", 7, 9, partition)
    answer = found(path, 1)
    topic = answer["proof-out"]
    assert topic["verdict"] == "differs"
    assert topic["counts"] == {"different": 1, "unexpected": 1}
    assert {each["kind"]: each["written"]["value"] for each in topic["deviations"]} == {"different": 7, "unexpected": 7}
    assert answer[f"proof-{CHANGELOG}"]["verdict"] == "equal"
    assert found_text(path).endswith("results differ from those of the input\n")


def found_text(path: Path) -> str:
    return invoke("verify", path).output


def test_records_are_compared_with_their_order(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, a record that was written twice or not at all is not found."""
    path = ran(cluster, tmp_path, "plain", PLAIN, [(f"k{number}", 1) for number in range(len(VALUES))])
    topic = found(path, 0)["plain-out"]
    assert (topic["verdict"], topic["compared"], topic["reason"]) == ("equal", "records", "")
    assert found_text(path).endswith("\neach result was written exactly once\n")

    # The last record of a partition once more.
    doubled = asyncio.run(last(cluster, "plain-out"))
    write(cluster, "plain-out", doubled[0], 1, doubled[1], doubled[2])
    topic = found(path, 1)["plain-out"]
    assert topic["counts"] == {"doubled": 1}
    assert topic["deviations"][0]["written"]["key"] == doubled[0]
    assert topic["disordered"] == [doubled[2]]
    assert "(2 times in place of 1)" in found_text(path)


async def last(cluster: Cluster, topic: str) -> tuple[str, int, int]:
    """Key, time and partition of a record that ends its partition."""
    async with cluster.client() as client:
        keys = await client.records.partitions(topic)
        ends = {key: end for key, end in (await client.offsets.latest(keys)).whole().items() if end}
        found = ("", 0, 0)
        async with client.records.reader(dict.fromkeys(ends, 0), ends=ends) as reader:
            async for chunk in reader:
                for each in chunk.records:
                    found = (each.key or b"").decode(), each.timestamp, chunk.partition.partition
        return found


def test_results_that_were_not_written(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, offsets that were committed without their results are not noticed."""
    path = ran(cluster, tmp_path, "skipped", PLAIN, [(f"k{number}", 1) for number in range(len(VALUES))])
    cluster.write("skipped-in", "more")
    # The offsets move on without a result, as those of a program that loses records.
    assert invoke("reset", path, "--to-latest", "--yes", "--state-dir", tmp_path).exit_code == 0
    topic = found(path, 1)["skipped-out"]
    assert topic["counts"] == {"missing": 1}
    assert topic["deviations"][0]["recomputed"] == {"key": "k0", "value": 4}
    assert "missing in partition" in found_text(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--topic", "other"), "--topic other: compared are nothing-out"), ((), "it has committed nothing")],
)
def test_what_cannot_be_proven_is_refused(
    cluster: Cluster, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """If this fails, an application without commits counts as proven."""
    if not cluster.topics("nothing-"):
        cluster.create("nothing-in", "nothing-out")
    shown = invoke("verify", cluster.application(tmp_path, "nothing", PLAIN), *arguments)
    assert shown.exit_code == 2, shown.output
    assert message in shown.output
