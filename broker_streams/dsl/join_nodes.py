"""Graph nodes of the joins of streams. The passes look for those of two streams."""

from __future__ import annotations

from collections.abc import Sequence

from broker_streams.dsl.graph import GraphNode, StepNode
from broker_streams.plan.steps import Step
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import ProcessorNode, TopologyBuilder, TopologyError


class WindowNode(StepNode):
    """Keeps the records of one side of a join in a window store."""


class StreamJoinNode(GraphNode):
    """Both sides of a join behind the windows of their streams, and the node that unites the results: this one.

    `left` and `right` hold names, steps and stores of the sides; they are no nodes of the graph. In a join of a stream
    with itself, `self_step` runs in their place, with the store of the left window.
    """

    def __init__(
        self,
        name: str,
        left: StepNode,
        right: StepNode,
        left_window: WindowNode,
        right_window: WindowNode,
        self_step: Step,
    ) -> None:
        super().__init__(name)
        self.left = left
        self.right = right
        self.left_window = left_window
        self.right_window = right_window
        self.self_step = self_step
        self.is_self_join = False

    def write(self, topology: TopologyBuilder) -> None:
        if self.is_self_join:
            self._add(topology, self.name, self.left_window.name, self.self_step, self.left_window.stores)
            return
        for side, window in ((self.left, self.left_window), (self.right, self.right_window)):
            self._add(topology, side.name, window.name, side.step, side.stores)
        topology.add_processor(ProcessorNode(self.name, (self.left.name, self.right.name), PassThrough()))

    @staticmethod
    def _add(topology: TopologyBuilder, name: str, parent: str, step: Step, stores: Sequence[Store]) -> None:
        topology.add_processor(ProcessorNode(name, (parent,), step))
        for store in stores:
            topology.add_store(store, (name,))


class StreamTableJoinNode(StepNode):
    """A join with a table, whose stores are `store_names`. `stores` has the buffer of a grace period, or nothing."""

    def write(self, topology: TopologyBuilder) -> None:
        """Raises TopologyError: records would wait for rows at times that the table does not know."""
        for buffer in self.stores:
            grace_ms = buffer.options["grace_ms"]
            for store in map(topology.store, self.store_names):
                if store.kind is not StoreKind.VERSIONED_KEY_VALUE or store.history_ms is None:
                    raise TopologyError(
                        f"{self.name} has a grace period, which needs a versioned table: see {store.name}"
                    )
                if grace_ms > store.history_ms:
                    raise TopologyError(
                        f"the grace period of {self.name} is {grace_ms} ms, but store {store.name} keeps a history of"
                        f" {store.history_ms} ms; at least the grace period is needed"
                    )
        super().write(topology)
