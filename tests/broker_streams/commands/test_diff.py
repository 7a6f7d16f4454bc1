"""`broker-streams diff`: two versions on the same records."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.broker_streams.commands.cluster import COUNTS, PARTITIONS, Cluster, invoke


def test_versions_that_differ(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, a changed application is taken for an equal one, or differs from itself."""
    cluster.create("diff-in", "diff-out")
    cluster.write("diff-in", "a", "b", "a", "c", "a")
    old = cluster.application(tmp_path, "diff")
    # The new version leaves out b, and counts c with a.
    changed = COUNTS.replace("lambda key, value: value", "lambda key, value: 'a' if value == 'c' else value")
    changed = changed.replace(".group_by", ".filter(lambda key, value: value != 'b').group_by")
    new = cluster.application(tmp_path, "diff2", changed, inputs="diff-in", outputs="diff-out")

    same = invoke("diff", old, old)
    assert same.exit_code == 0, same.output
    assert same.output.startswith("processed 5 records\n")

    shown = invoke("diff", old, new, "--json")
    assert shown.exit_code == 1, shown.output
    found = json.loads(shown.output)
    assert found["processed"] == {"old": 5, "new": 5}
    (topic,) = found["topics"]
    assert {name: topic[name] for name in ("topic", "old", "new", "only_old", "only_new")} == {
        "topic": "diff-out", "old": 5, "new": 4, "only_old": 3, "only_new": 2,
    }  # fmt: skip
    lines = {(each["side"], each["key"], each["value"], each["at"]) for each in topic["differences"]}
    # The times of records are their numbers: the third record is the second one of a.
    assert lines == {
        ("old", "a", 1, 0), ("old", "a", 2, 2), ("old", "a", 3, 4), ("old", "b", 1, 1), ("old", "c", 1, 3),
        ("new", "a", 1, 0), ("new", "a", 2, 2), ("new", "a", 3, 3), ("new", "a", 4, 4),
    }  # fmt: skip
    text = invoke("diff", old, new).output
    assert "{key: b, value: 1, at: 1}" in text
    assert "records of the first 3 keys that differ" in text
    # Nothing was written.
    assert cluster.topics("diff") == ["diff-in", "diff-out"]


def test_a_range_of_offsets(cluster: Cluster, tmp_path: Path) -> None:
    """If this fails, versions are compared on other records than the user asked for."""
    cluster.create("range-in", "range-out")
    cluster.write("range-in", *"aaaa")
    path = cluster.application(tmp_path, "range")
    everything = json.loads(invoke("diff", path, path, "--json").output)["processed"]["old"]
    assert everything == 4
    # All but the first record of each partition that has one.
    ends = asyncio.run(ends_of(cluster, "range-in"))
    begin, far = tmp_path / "begin.csv", tmp_path / "far.csv"
    begin.write_text("".join(f"range-in,{number},{min(1, end)}\n" for number, end in enumerate(ends)))
    far.write_text("".join(f"range-in,{number},9\n" for number in range(PARTITIONS)))
    found = json.loads(invoke("diff", path, path, "--from", begin, "--json").output)
    assert found["processed"]["old"] == sum(max(0, end - 1) for end in ends)
    before = json.loads(invoke("diff", path, path, "--until", begin, "--json").output)
    assert before["processed"]["old"] == sum(min(1, end) for end in ends)

    for arguments, message in (
        (("--from", "soon"), "'soon'"),
        (("--from", tmp_path / "missing.csv"), "missing.csv is no file"),
        (("--until", far), "offset 9 of range-in-0: the log has 0 to"),
        (("--until", "committed"), "nothing is committed for range-in-0"),
        (("--topic", "range-in"), "--topic range-in: written were range-out"),
    ):
        refused = invoke("diff", path, path, *arguments)
        assert refused.exit_code == 2, refused.output
        assert message in refused.output


async def ends_of(cluster: Cluster, topic: str) -> list[int]:
    async with cluster.client() as client:
        found = (await client.offsets.latest(await client.records.partitions(topic))).whole()
        return [found[key] for key in sorted(found)]
