"""Passes over the graph of the DSL before it is written: `optimize` runs them in the order of the list PASSES.

Some always run; the others are chosen by topology.optimization (KIP-295, KIP-862).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_streams.dsl.graph import Graph, GraphNode, all_below, find_above
from broker_streams.dsl.join_nodes import StreamJoinNode, WindowNode
from broker_streams.dsl.nodes import RepartitionNode, SourceNode, TableSourceNode, repartition
from broker_streams.plan.steps.stateless import FilterNullKey
from broker_streams.plan.topology import TopologyError

CONFIG: Final = "topology.optimization"


def merge_sources(graph: Graph) -> None:
    """One source for all streams of the same topics. Raises TopologyError: some of the topics are the same."""
    by_topic: dict[str, SourceNode] = {}
    by_pattern: dict[str, SourceNode] = {}
    for node in tuple(graph.root.children):
        if not isinstance(node, SourceNode):
            continue
        topics, pattern = node.source.topics, node.source.pattern
        first = node
        if pattern is not None:
            first = by_pattern.setdefault(pattern, node)
        for topic in topics:
            first = by_topic.setdefault(topic, node)
            if set(first.source.topics) != set(topics):
                raise TopologyError(
                    f"{first.name} and {node.name} both read {topic}, but not the same topics:"
                    f" {', '.join(first.source.topics)}; {', '.join(topics)}"
                )
        if first is not node:
            first.merge(node)
            graph.root.remove_child(node)
            graph.replace_copartitioned(node.name, first.name)


def reuse_table_topics(graph: Graph) -> None:
    """A table's topic is the changelog of its store."""
    for node in graph.nodes:
        if isinstance(node, TableSourceNode):
            node.reuses_topic = True


def merge_repartition_topics(graph: Graph) -> None:
    """One repartition topic right below a change of the key, in place of all below it."""
    for changer, found in _repartitions(graph).items():
        if found:
            _merge(graph, changer, found)


def _merge(graph: Graph, changer: GraphNode, found: list[RepartitionNode]) -> None:
    """The topic keeps the name of the first one. Raises TopologyError: a bug."""
    merged = repartition(
        graph,
        found[0].topic.name,
        next((each.key_serde for each in found if each.key_serde is not None), None),
        next((each.value_serde for each in found if each.value_serde is not None), None),
    )
    # It is written after the change of the key, and before the nodes that were below that.
    merged.build_priority = changer.build_priority
    for replaced in found:
        top = _below_one_of((changer, merged), replaced)
        merged.add_child(top)
        changer.remove_child(top)
        above, below = tuple(replaced.parents), tuple(replaced.children)
        for parent in above:
            for child in below:
                parent.add_child(child)
            parent.remove_child(replaced)
        replaced.clear_children()
        graph.replace_copartitioned(replaced.name, merged.name)
    changer.add_child(merged)


def _below_one_of(parents: tuple[GraphNode, ...], start: GraphNode) -> GraphNode:
    """The child of one of the parents that `start` is, or is below. Kafka fails where two repartitions are below the
    same child, as that is below the merged node when the second one comes.
    """
    found = find_above(start, _is_child_of(*parents))
    if found is None:
        raise TopologyError(f"repartition {start.name} is not below {parents[0].name}, which changes its keys")
    return found


def _is_child_of(*parents: GraphNode) -> Callable[[GraphNode], bool]:
    return lambda node: any(parent in node.parents for parent in parents)


def _repartitions(graph: Graph) -> dict[GraphNode, list[RepartitionNode]]:
    """Repartitions by the node that made them necessary: a change of the key, or the merge of streams below it."""
    found: dict[GraphNode, list[RepartitionNode]] = {}
    for node in graph.nodes:
        if node.changes_key:
            found[node] = []
        elif isinstance(node, RepartitionNode) and node.is_optimizable:
            # The values of a merged topic are those below the change of the key, so nothing may change them between.
            changer = find_above(node, lambda each: each.changes_key or each.changes_value)
            if changer is not None and changer.changes_key:
                found[changer].append(node)
    _move_to_merges(graph, found)
    return found


def _move_to_merges(graph: Graph, found: dict[GraphNode, list[RepartitionNode]]) -> None:
    """A merged stream is repartitioned once, whichever of its streams changed the key."""
    moved: dict[GraphNode, list[GraphNode]] = {}
    for merge in graph.nodes:
        if not merge.is_merge:
            continue
        moved[merge] = [
            changer
            for changer, below in found.items()
            if all(find_above(each, _is_child_of(merge)) for each in below) and find_above(merge, _is_child_of(changer))
        ]
    for merge, changers in moved.items():
        found[merge] = list(dict.fromkeys(each for changer in changers for each in found[changer]))
    for changers in moved.values():
        for changer in changers:
            found.pop(changer, None)


def use_one_store_for_self_joins(graph: Graph) -> None:
    """A stream that is joined with itself is kept once. Raises TopologyError: a bug."""
    for node in all_below(graph.root):
        if not isinstance(node, StreamJoinNode) or len(node.parents) != 1:
            continue
        (parent,) = node.parents
        windows = [each for each in parent.children if isinstance(each, WindowNode)]
        if node.left_window not in windows or node.right_window not in windows:
            raise TopologyError(f"the windows of the self join {node.name} are not below {parent.name}")
        parent.remove_child(node.right_window)
        node.is_self_join = True


def drop_null_keys(graph: Graph) -> None:
    """Records without a key are not written to a repartition topic, unless a join behind it passes them on."""
    for node in all_below(graph.root):
        if isinstance(node, RepartitionNode) and not any(each.relaxes_null_keys for each in all_below(node)):
            node.filter_step = FilterNullKey()


def read_versions(graph: Graph) -> None:
    """Nodes below versioned tables compare versions (KIP-914). Raises TopologyError: a node cannot work on them."""
    for node in graph.nodes:
        for parent in node.parents:
            if _is_versioned(parent):
                node.read_versions_of(parent)
        if node.versions_refused is not None and node.parents and all(_is_versioned(each) for each in node.parents):
            raise TopologyError(node.versions_refused)


def _is_versioned(node: GraphNode) -> bool:
    """As the node itself says, else as all of its parents are."""
    if node.is_versioned is not None:
        return node.is_versioned
    return bool(node.parents) and all(_is_versioned(each) for each in node.parents)


@dataclass(frozen=True)
class Pass:
    """`name` in topology.optimization; None: it always runs."""

    run: Callable[[Graph], None]
    name: str | None = None


PASSES: Final = (
    # First: two streams of one topic have one parent then, which makes a self join of their join.
    Pass(merge_sources),
    # It needs no other pass, and none needs it.
    Pass(reuse_table_topics, "reuse.ktable.source.topics"),
    # Before self joins: two repartitioned streams may come from one topic then. Before null keys: it adds nodes.
    Pass(merge_repartition_topics, "merge.repartition.topics"),
    # After both merges, which decide on the number of parents.
    Pass(use_one_store_for_self_joins, "single.store.self.join"),
    # After all changes of repartitions and of the nodes below them.
    Pass(drop_null_keys),
    # Last, as the passes above change parents.
    Pass(read_versions),
)
NAMES: Final = tuple(each.name for each in PASSES if each.name is not None)


def chosen(text: str) -> frozenset[str]:
    """The names in a value of topology.optimization. Raises ValueError: a name is not known, or stands with all."""
    names = re.split(r"\s*,\s*", text)
    for name in names:
        if name not in ("all", "none", *NAMES):
            raise ValueError(f"{CONFIG} is {text!r}: {name!r} is not known; allowed are all, none, {', '.join(NAMES)}")
    if len(names) > 1 and ("all" in names or "none" in names):
        raise ValueError(f"{CONFIG} is {text!r}: all and none stand alone")
    return frozenset(NAMES if "all" in names else ()) | frozenset(name for name in names if name in NAMES)


def optimize(graph: Graph, config: Mapping[str, Any]) -> None:
    """Run all passes that `config` chooses. A graph is optimized once.

    Raises TopologyError: the calls of the DSL do not fit together. ValueError: the setting is wrong.
    """
    names = chosen(config.get(CONFIG) or "none")
    for each in PASSES:
        if each.name is None or each.name in names:
            each.run(graph)
