"""The description of a topology in Kafka's text (`TopologyDescription.toString`).

Within a sub-topology, nodes are ordered by the size of what is below them. The order of names behind an arrow is that
of Java's sets at the time at which Kafka connects the nodes (java_order).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_streams.plan.java_order import TreeOrder, in_hash_order
from broker_streams.plan.topology import Node, ProcessorNode, Source, Topology


class _Described:
    """A node, and how large the part below it is: 1 and the sizes of all children, over all ways to them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.size = 1
        self.above: TreeOrder[_Described] = TreeOrder(_compare)
        self.below: TreeOrder[_Described] = TreeOrder(_compare)

    def grow(self, by: int) -> None:
        self.size += by
        for each in self.above:
            each.grow(by)

    def text(self) -> str:
        node = self.node
        above, below = f"\n      <-- {_names(self.above)}", f"\n      --> {_names(self.below)}"
        if isinstance(node, Source):
            topics = _set(node.topics, copied=True) if node.pattern is None else node.pattern
            return f"Source: {node.name} (topics: {topics}){below}"
        if isinstance(node, ProcessorNode):
            return f"Processor: {node.name} (stores: {_set(node.stores)}){below}{above}"
        target = f"extractor class: {node.topic_extractor.text}" if node.topic_extractor else f"topic: {node.topic}"
        return f"Sink: {node.name} ({target}){above}"


def describe(topology: Topology) -> str:
    """Return the text. Topics that the application makes lack its id, as in Kafka before the start."""
    lines = ["Topologies:\n "]
    for number, nodes in enumerate(topology.groups()):
        lines.append("  ")
        if any(node.name in topology.global_nodes for node in nodes):
            lines.append(_global_store(number, nodes))
        else:
            parts = "".join(f"    {each.text()}\n" for each in _connected(nodes))
            lines.append(f"Sub-topology: {number}\n{parts}\n")
    return "".join(lines)


def _connected(nodes: Iterable[Node]) -> list[_Described]:
    by_name = {node.name: _Described(node) for node in nodes}
    # A map that is filled in the order of a set.
    order = in_hash_order(in_hash_order(by_name))
    for name in order:
        described = by_name[name]
        for parent in described.node.parents:
            above = by_name[parent]
            described.above.add(above)
            above.below.add(described)
            above.grow(described.size)
    return sorted(by_name.values(), key=lambda each: (-each.size, each.node.name))


def _global_store(number: int, nodes: Iterable[Node]) -> str:
    source = next(node for node in nodes if isinstance(node, Source))
    processor = next(node for node in nodes if isinstance(node, ProcessorNode))
    return (
        f"Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    Source: {source.name} (topics: [{source.topics[0]}])\n      --> {processor.name}\n"
        f"    Processor: {processor.name} (stores: [{processor.stores[0]}])\n      --> none\n      <-- {source.name}\n"
    )


def _compare(one: _Described, other: _Described) -> int:
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.node.name < other.node.name else 1


def _names(nodes: Iterable[_Described]) -> str:
    return ", ".join(each.node.name for each in nodes) or "none"


def _set(names: Iterable[str], *, copied: bool = False) -> str:
    return f"[{', '.join(in_hash_order(names, copied=copied))}]"
