"""StreamsBuilder: where an application of the DSL begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker_streams import settings
from broker_streams.dsl.graph import Graph
from broker_streams.dsl.kstream import KStream
from broker_streams.dsl.nodes import GlobalStoreNode, SourceNode, StoreNode, function
from broker_streams.dsl.suppliers import checked_store, checked_supplier
from broker_streams.dsl.topology import Topology, extractor_of
from broker_streams.plan.steps.processor_api import Process
from broker_streams.plan.stores import Store
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import Source, TopologyBuilder, TopologyError
from broker_streams.serdes.names import of as serde_of

if TYPE_CHECKING:
    from broker_streams.dsl.global_table import GlobalKTable
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.materialized import Materialized


class StreamsBuilder:
    """Collects the calls of an application. `build` makes its topology."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._topology: Topology | None = None

    def stream(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
        offset_reset: str | None = None,
    ) -> KStream:
        """Read topics, or all topics whose whole name matches a pattern.

        `timestamp_extractor(record, partition_time_ms)` returns the timestamp of a record in ms. `offset_reset` is
        earliest, latest, none, or by_duration: and an ISO duration.
        """
        names, pattern = _topics(topics)
        name = self.graph.named(name, "KSTREAM-SOURCE-")
        extractor = extractor_of(name, timestamp_extractor)
        key_serde, value_serde = serde_of(key), serde_of(value)
        reset = checked_reset(offset_reset)
        node = SourceNode(Source(name, names, pattern, key_serde, value_serde, extractor, reset))
        self.graph.add(node)
        return KStream(self.graph, node, name, key_serde, value_serde, (name,), False)

    def table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        materialized: Materialized | None = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
        offset_reset: str | None = None,
    ) -> KTable:
        """Read a topic as a table: the latest record of a key is its row, and one without a value deletes it."""
        from broker_streams.dsl.table_sources import read_table

        reset = checked_reset(offset_reset)
        return read_table(
            self.graph, topic, serde_of(key), serde_of(value), name, materialized, timestamp_extractor, reset
        )

    def global_table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        materialized: Materialized | None = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
    ) -> GlobalKTable:
        """Read all partitions of a topic as a table on each instance. Streams are joined with it by any key."""
        from broker_streams.dsl.global_table import read_global_table

        return read_global_table(
            self.graph, topic, serde_of(key), serde_of(value), name, materialized, timestamp_extractor
        )

    def add_state_store(self, store: Store) -> StreamsBuilder:
        """Add a store that processors use by its name."""
        self.graph.add(StoreNode(checked_store(store)))
        return self

    def add_global_store(
        self,
        store: Store,
        topic: str,
        supplier: Callable[[], Any],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | Callable[..., int] | None = None,
    ) -> StreamsBuilder:
        """Add a store that each instance fills from all partitions of a topic, with a processor that writes it."""
        source_name = self.graph.named(name, "KSTREAM-SOURCE-", "-source")
        processor_name = self.graph.named(name, "KTABLE-SOURCE-")
        extractor = extractor_of(source_name, timestamp_extractor)
        source = Source(source_name, (topic,), None, serde_of(key), serde_of(value), extractor)
        step = Process(function(processor_name, "supplier", checked_supplier(supplier)))
        self.graph.add(GlobalStoreNode(checked_store(store), source, processor_name, step))
        return self

    def build(self, config: Mapping[str, Any] | None = None) -> Topology:
        """Make the topology. `config` has topology.optimization and ensure.explicit.internal.resource.naming.

        A second call returns the same topology. Raises TopologyError: the calls do not fit together.
        """
        from broker_streams.dsl.explicit_names import check_names
        from broker_streams.dsl.passes import optimize

        if self._topology is None:
            config = config or {}
            optimize(self.graph, config)
            topology = TopologyBuilder()
            self.graph.write(topology)
            made = Topology(topology)
            check_names(made, config)
            self._topology = made
        return self._topology


def _topics(topics: str | Iterable[str] | re.Pattern[str]) -> tuple[tuple[str, ...], str | None]:
    """Topics, or a pattern. Raises TopologyError: none is given."""
    if isinstance(topics, re.Pattern):
        return (), topics.pattern
    if not isinstance(topics, Iterable):
        raise TopologyError(f"a stream reads {topics!r}; a topic, several topics, or a pattern is expected")
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names or not all(names):
        raise TopologyError("a stream reads at least one topic, and each has a name")
    for name in names:
        if not isinstance(name, str):
            raise TopologyError(f"a stream reads {name!r}, which is no name of a topic")
    return names, None


def checked_reset(offset_reset: str | None) -> str | None:
    """Raises TopologyError: no consumer knows this policy."""
    try:
        return None if offset_reset is None else settings.checked_reset("offset_reset", offset_reset)
    except ValueError as error:
        raise TopologyError(str(error)) from None
