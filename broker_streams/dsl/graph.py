"""The graph that the calls of the DSL make, before it is a topology.

A node knows its parents and children, as Kafka's optimizations need them: merged repartition topics, self joins with
one store. `write` adds the node to a topology. Nodes are written in the order of their build priority, which is the
order of the calls.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from broker_streams.plan.steps import Step
from broker_streams.plan.stores import Store
from broker_streams.plan.topology import ProcessorNode, TopologyBuilder, TopologyError

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NAME_MAX = 249


class GraphNode:
    """The base of all nodes. `is_versioned` None: as its parents are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parents: dict[GraphNode, None] = {}
        self.children: dict[GraphNode, None] = {}
        self.changes_key = False
        self.changes_value = False
        self.is_merge = False
        self.build_priority = 0
        self.is_versioned: bool | None = None
        # A join downstream accepts null keys, so a repartition above it need not drop them (KIP-962).
        self.relaxes_null_keys = False
        # The node cannot work on versioned tables: the text of the error.
        self.versions_refused: str | None = None

    def add_child(self, child: GraphNode) -> None:
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        self.children.pop(child, None)
        child.parents.pop(self, None)

    def clear_children(self) -> None:
        for child in self.children:
            child.parents.pop(self, None)
        self.children.clear()

    @property
    def parent_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.parents)

    def read_versions_of(self, parent: GraphNode) -> None:
        """The table of this parent is versioned (KIP-914). Nodes with another meaning then overwrite this."""

    def write(self, topology: TopologyBuilder) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class StepNode(GraphNode):
    """One processor, with the stores that it adds, and the names of stores that exist."""

    def __init__(self, name: str, step: Step, stores: Sequence[Store] = (), store_names: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.step = step
        self.stores = tuple(stores)
        self.store_names = tuple(store_names)

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_processor(ProcessorNode(self.name, self.parent_names, self.step))
        for store in self.stores:
            topology.add_store(store, (self.name,))
        if self.store_names:
            topology.connect(self.name, *self.store_names)


class _Root(GraphNode):
    def write(self, topology: TopologyBuilder) -> None:
        """The root is no node of the topology."""


class Graph:
    """All nodes of an application, and the counter of its names."""

    def __init__(self) -> None:
        self.root: GraphNode = _Root("root")
        self._priority = 0
        self._index = 0
        # In the order of their addition, for the passes.
        self.nodes: list[GraphNode] = []
        self._members: set[GraphNode] = {self.root}
        # Groups of names of sources whose topics must have equally many partitions.
        self.copartitioned: list[tuple[str, ...]] = []

    def new_name(self, prefix: str) -> str:
        """KSTREAM-MAP-0000000003: the prefix of the operation and the number of the call."""
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        return name

    def new_store_name(self, prefix: str) -> str:
        return self.new_name(f"{prefix}STATE-STORE-")

    def named(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """The user's name with a suffix, or a new name. The call is counted in both cases, as in Kafka, so that a name
        changes no other one. Raises TopologyError: the name cannot be part of a topic's name.
        """
        made = self.new_name(prefix)
        return made if name is None else checked_name(checked_name(name) + suffix)

    def add(self, child: GraphNode, *parents: GraphNode) -> None:
        """Add a node below others; below the root without parents. Each addition to a parent counts, as in Kafka.

        Raises TopologyError: a parent belongs to another graph, which would never pass a record on.
        """
        for parent in parents:
            if parent not in self._members:
                raise TopologyError(f"{parent.name} and {child.name} belong to two StreamsBuilders; use one for both")
        self._members.add(child)
        for parent in parents or (self.root,):
            parent.add_child(child)
            child.build_priority = self._priority
            self._priority += 1
        if child not in self.nodes:
            self.nodes.append(child)

    def copartition(self, sources: Iterable[str]) -> None:
        self.copartitioned.append(tuple(dict.fromkeys(sources)))

    def replace_copartitioned(self, replaced: str, name: str) -> None:
        """Another source takes the place of `replaced`."""
        self.copartitioned = [
            tuple(dict.fromkeys(name if each == replaced else each for each in group)) for group in self.copartitioned
        ]

    def write(self, topology: TopologyBuilder) -> None:
        """Add all nodes, and the groups of equally partitioned sources, to a topology."""
        for node in self.in_build_order():
            node.write(topology)
        for group in self.copartitioned:
            topology.copartition(group)

    def in_build_order(self) -> Iterator[GraphNode]:
        """Nodes below the root in the order in which they are written, each once and after its parents."""
        count = 0
        queue: list[tuple[int, int, GraphNode]] = [(-1, count, self.root)]
        written: set[GraphNode] = set()
        while queue:
            _, _, node = heapq.heappop(queue)
            # A node with another parent that is not written yet comes again after that parent.
            if node in written or any(parent not in written for parent in node.parents):
                continue
            written.add(node)
            if node is not self.root:
                yield node
            for child in node.children:
                count += 1
                heapq.heappush(queue, (child.build_priority, count, child))


def checked_name(name: str) -> str:
    """Raises TopologyError: the name of a processor or store cannot be part of a topic's name."""
    if not name:
        raise TopologyError("a name is empty")
    if name in (".", ".."):
        raise TopologyError(f"the name {name!r} is not allowed")
    if len(name) > _NAME_MAX:
        raise TopologyError(f"the name {name} has {len(name)} characters; at most {_NAME_MAX} are allowed")
    if not _NAME.fullmatch(name):
        raise TopologyError(f"the name {name!r} has other characters than ASCII letters, digits, '.', '_' and '-'")
    return name


def find_above(start: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """`start`, or the nearest node above it that matches, parents in their order, each with all above it first."""
    if matches(start):
        return start
    for parent in start.parents:
        if (found := find_above(parent, matches)) is not None:
            return found
    return None


def all_below(start: GraphNode) -> Iterable[GraphNode]:
    """All nodes below `start`, each once."""
    found: dict[GraphNode, None] = {}
    waiting = list(start.children)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += node.children
    return found
