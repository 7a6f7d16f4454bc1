"""Where the records of a lake come from: the brokers of each source, and the current generation of its topics.

Several single-node Kafka clusters can be the nodes of one cluster in a lake: each is a source under the cluster's name.
Rows identify their node by its id alone, so two sources of a cluster must not have the same node.
"""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker_cy.client.security import OPEN, ClientSecurity
from spark_analytics.lake import Generation, Lake, LakeError, Offsets, read_facts, write_facts


@dataclass(frozen=True)
class Topic:
    """A topic: its id, and the first offset and the end of each partition."""

    topic_id: str
    starts: dict[int, int]
    ends: dict[int, int]


@dataclass(frozen=True)
class Source:
    """Where records come from: `cluster` is a name in the lake, `source` the id of the Kafka cluster; `security` has
    the settings that its brokers require of connections.
    """

    bootstrap: str
    cluster: str
    source: str
    nodes: frozenset[int]
    topics: Mapping[str, Topic]
    security: ClientSecurity = OPEN


def enter(lake: Lake, source: Source, replaces: str | None = None) -> None:
    """Note the source's nodes in the lake. `replaces` is a source whose nodes this one takes over.

    Raises LakeError if another source of the cluster has one of the nodes, or `replaces` is not one of them.
    """
    others = [each for each in lake.sources(source.cluster) if each != source.source]
    if replaces is not None and replaces not in others:
        raise LakeError(f"{replaces}: no other source of {source.cluster!r} (there: {', '.join(others) or 'none'})")
    folder = lake.source(source.cluster, source.source).parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # for a moment, while sources are compared
        known = {each: read_facts(folder / each / "source.json") for each in others}
        for other, facts in known.items():
            common = source.nodes & set(facts.get("nodes", ()))
            if not common:
                continue
            if other != replaces:
                raise LakeError(_clash(source, common, other, facts))
            write_facts(folder / other / "source.json", {**facts, "nodes": sorted(set(facts["nodes"]) - common)})
        own = folder / source.source / "source.json"
        # A node that is down now still has rows in the lake.
        nodes = source.nodes | set(read_facts(own).get("nodes", ()))
        write_facts(own, {"bootstrap": source.bootstrap, "nodes": sorted(nodes)})


def _clash(source: Source, common: frozenset[int], other: str, facts: Mapping[str, Any]) -> str:
    nodes = ", ".join(map(str, sorted(common)))
    return (
        f"{source.bootstrap} (cluster id {source.source}) has node {nodes}, and so has {facts['bootstrap']} (cluster "
        f"id {other}), which is in the lake as {source.cluster!r}, too: their rows could not be distinguished. Give "
        "each broker its own node.id, or ingest them with different --cluster names. If this is the same broker, and "
        f"its data directory was formatted again, add --replaces {other}"
    )


def current(lake: Lake, source: Source) -> tuple[Generation, Offsets, list[str]]:
    """Return the current generation, the start of its next batch, and notes for the user about a change of the topics.

    A topic that was in an earlier generation with the same id continues at the end of its last complete batch. A topic
    that was not read before has no entry: all its records are new.
    """
    known = lake.generations(source.cluster, source.source)
    ids = {name: topic.topic_id for name, topic in source.topics.items()}
    notes: list[str] = []
    if known and topic_ids(known[-1]) == ids:
        generation = known[-1]
    else:
        generation = lake.generation(source.cluster, source.source, known[-1].number + 1 if known else 1)
        write_facts(generation.folder / "topics.json", ids)
        notes = [text for each in known[-1:] for text in _changes(topic_ids(each), ids, each)]
    known_ends = {name: _end(name, topic.topic_id, known) for name, topic in source.topics.items()}
    starts = {name: ends for name, ends in known_ends.items() if ends}
    return generation, starts, notes


def topic_ids(generation: Generation) -> dict[str, str]:
    """Return the ids of the topics that a generation reads."""
    return read_facts(generation.folder / "topics.json")


def _end(topic: str, topic_id: str, generations: list[Generation]) -> dict[int, int]:
    """Return the end of the last complete batch of this life of a topic, by partition; empty without one."""
    for each in reversed(generations):
        if topic_ids(each).get(topic) == topic_id and topic in (ends := each.ends):
            return ends[topic]
    return {}


def _changes(before: Mapping[str, str], now: Mapping[str, str], generation: Generation) -> list[str]:
    """Return a sentence for each topic that was replaced or no longer exists."""
    found = []
    for topic, topic_id in before.items():
        if now.get(topic) == topic_id:
            continue
        what = "was created again since the last ingest, and is read from its start" if topic in now else "was deleted"
        end = generation.ends.get(topic)
        last = f"after offset {max(end.values()) - 1}" if end else "none were"
        found.append(
            f"{topic} {what}: records of the deleted topic that had not been ingested ({last}) are lost; how many is "
            "not known"
        )
    return found
