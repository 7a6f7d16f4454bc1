"""Joins of two tables by a foreign key. plan/steps/foreign_key_join.py has the picture of its processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker_streams.dsl.graph import Graph, StepNode
from broker_streams.dsl.nodes import SinkNode, SourceNode, function
from broker_streams.dsl.table_origins import SourceOrigin, TableStepNode, is_versioned
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import foreign_key_join as steps
from broker_streams.plan.steps.tables import TableSource
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import InternalTopic, Sink, Source, TopologyBuilder, TopologyError
from broker_streams.plan.value_getters import stores_of
from broker_streams.serdes.primitives import BYTES
from broker_streams.serdes.subscriptions import ResponseSerde, SubscriptionSerde

if TYPE_CHECKING:
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.materialized import Materialized

PREFIX: Final = "KTABLE-FK-JOIN-"
Partitioner = Callable[[str, Any, Any, int], Any]


class Partitioners(NamedTuple):
    """Partitioners of the topic of answers, by the left key, and of that of subscriptions, by the right key."""

    primary: Partitioner | None
    foreign: Partitioner | None


class TopicNode(SinkNode):
    """Writes records to a topic of the application. `source`, a node below it, reads them again."""

    def __init__(self, sink: Sink, source_name: str) -> None:
        super().__init__(sink)
        self.topic = str(sink.topic)
        source = Source(source_name, (self.topic,), key_serde=sink.key_serde, value_serde=sink.value_serde)
        self.source = SourceNode(source)

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_repartition_topic(InternalTopic(self.topic))
        super().write(topology)


def join_on_foreign_key(
    left: KTable,
    right: KTable,
    joiner: Callable[[Any, Any], Any],
    foreign_key: Callable[..., Any],
    with_key: bool,
    is_left: bool,
    name: str | None,
    materialized: Materialized | None,
    partitioners: Partitioners,
) -> KTable:
    """See KTable.join. Names are given in Kafka's order."""
    from broker_streams.dsl.ktable import KTable

    if not isinstance(right, KTable):
        raise TopologyError(f"{right!r} is no table: a table is joined with a table")
    # The right side leaves out rows that did not change; the left side ends subscriptions to old keys.
    right.enable_old_values(True)
    left.enable_old_values(True)
    join = _Join(left, right, joiner, foreign_key, with_key, is_left, name, partitioners)
    return join.build(materialized)


class _Join:
    def __init__(
        self,
        left: KTable,
        right: KTable,
        joiner: Callable[[Any, Any], Any],
        foreign_key: Callable[..., Any],
        with_key: bool,
        is_left: bool,
        name: str | None,
        partitioners: Partitioners,
    ) -> None:
        self._graph: Graph = left.graph
        self._left = left
        self._right = right
        self._joiner = joiner
        self._foreign_key = foreign_key
        self._with_key = with_key
        self._is_left = is_left
        self._name = name
        self._partitioners = partitioners

    def _named(self, suffix: str, prefix: str) -> str:
        return self._graph.named(self._name, prefix, suffix)

    def build(self, materialized: Materialized | None) -> KTable:
        topic = self._named("-subscription-registration", PREFIX + "SUBSCRIPTION-REGISTRATION-") + "-topic"
        answers = self._answers(topic, self._subscriptions(topic))
        return self._result(topic, answers, materialized)

    def _subscriptions(self, topic: str) -> tuple[TopicNode, str, SubscriptionSerde]:
        """The topic of subscriptions, the store that keeps them, and their serde."""
        left, right = self._left, self._right
        name = self._named("-subscription-registration-processor", PREFIX + "SUBSCRIPTION-REGISTRATION-")
        step = steps.SubscriptionSend(
            function(name, "foreign_key", self._foreign_key),
            self._with_key,
            self._is_left,
            topic,
            right.key_serde,
            left.value_serde,
        )
        send = TableStepNode(name, step)
        self._graph.add(send, left.node)
        sink_name = self._named("-subscription-registration-sink", "KTABLE-SINK-")
        source_name = self._named("-subscription-registration-source", "KTABLE-SOURCE-")
        store = self._named("-subscription-store", PREFIX + "SUBSCRIPTION-STATE-STORE-")
        serde = SubscriptionSerde(left.key_serde, topic, store)
        partitioner = self._partitioner(sink_name, self._partitioners.foreign)
        sink = Sink(sink_name, (), topic, key_serde=right.key_serde, value_serde=serde, partitioner=partitioner)
        node = TopicNode(sink, source_name)
        self._graph.add(node, send)
        self._graph.add(node.source, node)
        # The subscriptions must be where the rows of the right table are.
        self._graph.copartition((*right.sources, source_name))
        return node, store, serde

    def _answers(self, topic: str, subscriptions: tuple[TopicNode, str, SubscriptionSerde]) -> TopicNode:
        """Both ways to an answer, and the topic of answers."""
        left, right, graph = self._left, self._right, self._graph
        node, store_name, serde = subscriptions
        store = Store(
            store_name,
            StoreKind.TIMESTAMPED_KEY_VALUE,
            BYTES,
            serde,
            # Its changelog records have the headers of the subscriptions.
            options={"logs_headers": True},
        )
        receive = StepNode(
            self._named("-subscription-receive", PREFIX + "SUBSCRIPTION-PROCESSOR-"),
            steps.SubscriptionReceive(store_name, topic, right.key_serde, left.key_serde),
            (store,),
        )
        graph.add(receive, node.source)
        getter = right.getter()
        join = StepNode(
            self._named("-subscription-join-foreign", PREFIX + "SUBSCRIPTION-PROCESSOR-"),
            steps.SubscriptionJoin(getter),
            store_names=stores_of(getter),
        )
        graph.add(join, receive)
        changes = TableStepNode(
            self._named("-foreign-join-subscription", PREFIX + "SUBSCRIPTION-PROCESSOR-"),
            steps.ForeignTableJoin(store_name, topic, right.key_serde, left.key_serde),
            (store,),
        )
        graph.add(changes, right.node)
        answers = self._named("-subscription-response", PREFIX + "SUBSCRIPTION-RESPONSE-") + "-topic"
        sink_name = self._named("-subscription-response-sink", "KTABLE-SINK-")
        source_name = self._named("-subscription-response-source", "KTABLE-SOURCE-")
        sink = Sink(
            sink_name,
            (),
            answers,
            key_serde=left.key_serde,
            value_serde=ResponseSerde(right.value_serde),
            partitioner=self._partitioner(sink_name, self._partitioners.primary),
        )
        found = TopicNode(sink, source_name)
        graph.add(found, join, changes)
        graph.add(found.source, found)
        graph.copartition((*left.sources, source_name))
        return found

    def _result(self, topic: str, answers: TopicNode, materialized: Materialized | None) -> KTable:
        from broker_streams.dsl.ktable import KTable
        from broker_streams.dsl.materialized import Materialized

        left, graph = self._left, self._graph
        getter = left.getter()
        name = self._named("-subscription-response-resolver", PREFIX + "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-")
        step = steps.ResponseJoin(
            getter, function(name, "joiner", self._joiner), self._is_left, topic, left.value_serde
        )
        resolver = StepNode(name, step, store_names=stores_of(getter))
        graph.add(resolver, answers.source)
        result_name = self._named("-result", PREFIX + "OUTPUT-")
        chosen = materialized or Materialized()
        store = chosen.completed(graph, PREFIX + "OUTPUT-", left.key_serde, None).key_value_store()
        result = StepNode(result_name, TableSource())
        result.is_versioned = is_versioned(store)
        graph.add(result, resolver)
        sources = (*left.sources, answers.source.name)
        origin = SourceOrigin(result, store, chosen.name is not None)
        return KTable(graph, result, result_name, left.key_serde, chosen.value, sources, origin, store.name)

    def _partitioner(self, node: str, partitioner: Partitioner | None) -> Function | None:
        """A user's partitioner sees no value: other rows of the same key must go to the same partition."""
        if partitioner is None:
            return None
        given = function(node, "partitioner", partitioner).call

        def choose(topic: str, key: Any, value: Any, partitions: int) -> Any:
            found = given(topic, key, None, partitions)
            if found is None or isinstance(found, int):
                return found
            chosen = tuple(found)
            if len(chosen) != 1:
                raise ValueError(f"a partitioner of a foreign-key join returned {found!r}; one partition is allowed")
            return chosen[0]

        return Function(f"{node}.partitioner", choose)
