"""The Topology of users: Kafka's processor API, node by node.

`StreamsBuilder.build` returns it too, so that nodes may be added to what the DSL made. Hosts and the test driver take
its `plan`, which is data (plan/topology.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.dsl.nodes import function
from broker_streams.dsl.suppliers import checked_store, checked_supplier, stores_of
from broker_streams.plan.describe import describe
from broker_streams.plan.steps.processor_api import Process
from broker_streams.plan.stores import Store
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import ProcessorNode, Sink, Source, TopologyBuilder
from broker_streams.plan.topology import Topology as Plan
from broker_streams.serdes.names import of as serde_of


class Topology:
    """Each call adds to the topology and returns it. All raise TopologyError for names that exist or are missing."""

    def __init__(self, builder: TopologyBuilder | None = None) -> None:
        self._builder = builder or TopologyBuilder()

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: str | None = None,
        key: Any = None,
        value: Any = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
        offset_reset: str | None = None,
    ) -> Topology:
        """Read topics, or all topics whose whole name matches `pattern`."""
        extractor = extractor_of(name, timestamp_extractor)
        self._builder.add_source(Source(name, topics, pattern, serde_of(key), serde_of(value), extractor, offset_reset))
        return self

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> Topology:
        """Run a processor. `supplier()` makes one for each task; a class is a supplier. A supplier with a method
        `stores` brings stores.
        """
        step = Process(function(name, "supplier", checked_supplier(supplier)))
        self._builder.add_processor(ProcessorNode(name, parents, step))
        for store in stores_of(supplier):
            self._builder.add_store(store, (name,))
        return self

    def add_sink(
        self,
        name: str,
        topic: str | Callable[[Any, Any, Any], str],
        *parents: str,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[[str, Any, Any, int], Any] | None = None,
    ) -> Topology:
        """Write to a topic, or to the one that `topic(key, value, record_context)` returns."""
        self._builder.add_sink(
            Sink(
                name,
                parents,
                topic if isinstance(topic, str) else None,
                None if isinstance(topic, str) else function(name, "topic_extractor", topic),
                serde_of(key),
                serde_of(value),
                None if partitioner is None else function(name, "partitioner", partitioner),
            )
        )
        return self

    def add_state_store(self, store: Store, *processors: str) -> Topology:
        """Add a store, and connect it to processors."""
        self._builder.add_store(checked_store(store), processors)
        return self

    def add_global_store(
        self,
        store: Store,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], Any],
        *,
        key: Any = None,
        value: Any = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
    ) -> Topology:
        """Add a store that each instance fills from all partitions of a topic, with a processor that writes it."""
        step = Process(function(processor_name, "supplier", checked_supplier(supplier)))
        extractor = extractor_of(source_name, timestamp_extractor)
        source = Source(source_name, (topic,), None, serde_of(key), serde_of(value), extractor)
        self._builder.add_global_store(store, source, ProcessorNode(processor_name, (source_name,), step))
        return self

    def add_read_only_state_store(
        self,
        store: Store,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], Any],
        *,
        key: Any = None,
        value: Any = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
    ) -> Topology:
        """Add a store that a processor fills from a topic, which is its changelog too (KIP-813)."""
        self.add_source(source_name, topic, key=key, value=value, timestamp_extractor=timestamp_extractor)
        self.add_processor(processor_name, supplier, source_name)
        self._builder.add_store(store, (processor_name,))
        self._builder.use_source_topic(store.name, topic)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Let a processor use stores. Processors that share a store are in one sub-topology."""
        self._builder.connect(processor, *stores)
        return self

    def describe(self) -> str:
        """Kafka's text of the topology."""
        return describe(self.plan)

    @property
    def plan(self) -> Plan:
        """The topology as data, at this time. Raises TopologyError: it has no nodes."""
        return self._builder.build()


def extractor_of(node: str, given: Any) -> Any:
    """A timestamp extractor for a plan. Raises TopologyError: it cannot be called."""
    if given is None or isinstance(given, TimestampExtractor):
        return given
    return function(node, "timestamp_extractor", given)
