"""A split stream (KIP-418)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_streams.dsl.graph import GraphNode, StepNode
from broker_streams.dsl.nodes import function
from broker_streams.plan.functions import Function
from broker_streams.plan.steps.stateless import Branch, PassThrough
from broker_streams.plan.topology import ProcessorNode, TopologyBuilder, TopologyError

if TYPE_CHECKING:
    from broker_streams.dsl.kstream import KStream


class BranchNode(GraphNode):
    """A split; branches are added one after the other."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.branches: list[tuple[Function, str]] = []
        self.default: str | None = None

    def write(self, topology: TopologyBuilder) -> None:
        step = Branch(tuple(self.branches), self.default)
        topology.add_processor(ProcessorNode(self.name, self.parent_names, step))


class BranchedStream:
    """Each record goes to the first branch whose predicate is true. Branches are named PREFIX + their name or number.

    A branch is passed to its function `to`, and what that returns is in the result; None leaves it out.
    """

    def __init__(self, stream: KStream, name: str | None) -> None:
        self._stream = stream
        self._node = BranchNode(stream.graph.named(name, "KSTREAM-BRANCH-"))
        self._found: dict[str, KStream] = {}
        stream.graph.add(self._node, stream.node)

    def branch(
        self,
        predicate: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        to: Callable[[KStream], KStream | None] | None = None,
    ) -> BranchedStream:
        """Add a branch for records for which `predicate(key, value)` is true."""
        if self._node.default is not None:
            raise TopologyError(f"{self._node.name} has its default branch already; no branch may follow")
        number = len(self._node.branches) + 1
        branch = self._branch_name(name, number)
        self._node.branches.append((function(self._node.name, f"predicate-{number}", predicate), branch))
        self._add(branch, to)
        return self

    def default_branch(
        self, *, name: str | None = None, to: Callable[[KStream], KStream | None] | None = None
    ) -> dict[str, KStream]:
        """Add the branch of all other records, and return all branches by their names."""
        if self._node.default is not None:
            raise TopologyError(f"{self._node.name} has its default branch already")
        self._node.default = self._branch_name(name, 0)
        self._add(self._node.default, to)
        return self._found

    def no_default_branch(self) -> dict[str, KStream]:
        """Drop all other records, and return all branches by their names."""
        return self._found

    def _branch_name(self, name: str | None, number: int) -> str:
        return f"{self._node.name}{number if name is None else name}"

    def _add(self, name: str, to: Callable[[KStream], KStream | None] | None) -> None:
        from broker_streams.dsl.kstream import KStream

        stream = self._stream
        # Kafka uses up a number and drops the name.
        graph = stream.graph
        graph.new_name(name)
        node = StepNode(name, PassThrough())
        graph.add(node, self._node)
        branch = KStream(
            graph, node, name, stream.key_serde, stream.value_serde, stream.sources, stream.needs_repartition
        )
        found = branch if to is None else to(branch)
        if found is not None:
            self._found[name] = found
