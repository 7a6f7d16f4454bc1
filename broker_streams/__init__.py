"""Stream processing: the Streams API in Python, a plan of its topologies, and a kernel that runs them.

    dsl       StreamsBuilder, KStream, KTable: calls that only make a graph of plan steps
    plan      the topology as data: nodes, stores, sub-topologies, internal topics; its description in Kafka's text
    kernel    one task: sources, processors, stores and sinks of a sub-topology for one partition, record by record
    serdes    keys and values as bytes
    registry  the schema registry that serdes with schemas ask
    settings  the settings of an application
    testing   the test driver for users' applications

    records   the values that all of them pass on

Imports run one way: dsl > plan; testing > kernel > plan. Plan and kernel have no socket, file, clock or random source.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from broker_streams.dsl.branched import BranchedStream as BranchedStream
    from broker_streams.dsl.builder import StreamsBuilder as StreamsBuilder
    from broker_streams.dsl.cogrouped import CogroupedKStream as CogroupedKStream
    from broker_streams.dsl.cogrouped import WindowedCogroupedKStream as WindowedCogroupedKStream
    from broker_streams.dsl.global_table import GlobalKTable as GlobalKTable
    from broker_streams.dsl.grouped import KGroupedStream as KGroupedStream
    from broker_streams.dsl.grouped_table import KGroupedTable as KGroupedTable
    from broker_streams.dsl.kstream import KStream as KStream
    from broker_streams.dsl.ktable import KTable as KTable
    from broker_streams.dsl.materialized import Materialized as Materialized
    from broker_streams.dsl.suppressed import Suppressed as Suppressed
    from broker_streams.dsl.topology import Topology as Topology
    from broker_streams.dsl.windowed import SessionWindowedKStream as SessionWindowedKStream
    from broker_streams.dsl.windowed import TimeWindowedKStream as TimeWindowedKStream
    from broker_streams.kafka_streams import KafkaStreams as KafkaStreams
    from broker_streams.kafka_streams import StreamThreadExceptionResponse as StreamThreadExceptionResponse
    from broker_streams.kernel.errors import ErrorContext as ErrorContext
    from broker_streams.kernel.errors import RefusedRecord as RefusedRecord
    from broker_streams.kernel.errors import Response as Response
    from broker_streams.kernel.errors import Result as Result
    from broker_streams.kernel.errors import StreamsError as StreamsError
    from broker_streams.kernel.errors import log_and_continue as log_and_continue
    from broker_streams.kernel.errors import log_and_fail as log_and_fail
    from broker_streams.kernel.processor import Processor as Processor
    from broker_streams.kernel.processor import ProcessorContext as ProcessorContext
    from broker_streams.kernel.processor import PunctuationType as PunctuationType
    from broker_streams.plan.lineage.declared import declared_lineage as declared_lineage
    from broker_streams.plan.stores import Store as Store
    from broker_streams.plan.stores import StoreKind as StoreKind
    from broker_streams.plan.timestamps import TimestampExtractor as TimestampExtractor
    from broker_streams.plan.topology import TopologyError as TopologyError
    from broker_streams.plan.windows import EmitStrategy as EmitStrategy
    from broker_streams.plan.windows import JoinWindows as JoinWindows
    from broker_streams.plan.windows import SessionWindows as SessionWindows
    from broker_streams.plan.windows import SlidingWindows as SlidingWindows
    from broker_streams.plan.windows import TimeWindows as TimeWindows
    from broker_streams.plan.windows import UnlimitedWindows as UnlimitedWindows
    from broker_streams.queries.requests import FailureReason as FailureReason
    from broker_streams.queries.requests import KeyQuery as KeyQuery
    from broker_streams.queries.requests import MultiVersionedKeyQuery as MultiVersionedKeyQuery
    from broker_streams.queries.requests import Position as Position
    from broker_streams.queries.requests import PositionBound as PositionBound
    from broker_streams.queries.requests import RangeQuery as RangeQuery
    from broker_streams.queries.requests import StateQueryRequest as StateQueryRequest
    from broker_streams.queries.requests import TimestampedKeyQuery as TimestampedKeyQuery
    from broker_streams.queries.requests import TimestampedRangeQuery as TimestampedRangeQuery
    from broker_streams.queries.requests import VersionedKeyQuery as VersionedKeyQuery
    from broker_streams.queries.requests import WindowKeyQuery as WindowKeyQuery
    from broker_streams.queries.requests import WindowRangeQuery as WindowRangeQuery
    from broker_streams.records import KeyValue as KeyValue
    from broker_streams.records import Record as Record
    from broker_streams.records import ValueAndTimestamp as ValueAndTimestamp
    from broker_streams.records import VersionedRecord as VersionedRecord
    from broker_streams.records import Window as Window
    from broker_streams.records import Windowed as Windowed
    from broker_streams.serdes.delimited import DelimitedSerde as DelimitedSerde
    from broker_streams.serdes.json_values import JSON as JSON
    from broker_streams.serdes.lists import ListSerde as ListSerde
    from broker_streams.serdes.primitives import BOOLEAN as BOOLEAN
    from broker_streams.serdes.primitives import BYTES as BYTES
    from broker_streams.serdes.primitives import DOUBLE as DOUBLE
    from broker_streams.serdes.primitives import FLOAT as FLOAT
    from broker_streams.serdes.primitives import INTEGER as INTEGER
    from broker_streams.serdes.primitives import LONG as LONG
    from broker_streams.serdes.primitives import SHORT as SHORT
    from broker_streams.serdes.primitives import STRING as STRING
    from broker_streams.serdes.primitives import UUID as UUID
    from broker_streams.serdes.primitives import VOID as VOID
    from broker_streams.serdes.schemas.avro import AvroSerde as AvroSerde
    from broker_streams.serdes.schemas.json_schema import JsonSchemaSerde as JsonSchemaSerde
    from broker_streams.serdes.schemas.protobuf import ProtobufSerde as ProtobufSerde
    from broker_streams.serdes.windowed import SessionWindowedSerde as SessionWindowedSerde
    from broker_streams.serdes.windowed import TimeWindowedSerde as TimeWindowedSerde
    from broker_streams.testing.mock_context import MockProcessorContext as MockProcessorContext
    from broker_streams.testing.topology_test_driver import TopologyTestDriver as TopologyTestDriver

# The modules of the public names, imported at the first use of each: an application that only reads records pays for
# no driver. The imports above say the same to a type checker.
_MODULES: Final = {
    "dsl.branched": ("BranchedStream",),
    "dsl.builder": ("StreamsBuilder",),
    "dsl.cogrouped": ("CogroupedKStream", "WindowedCogroupedKStream"),
    "dsl.global_table": ("GlobalKTable",),
    "dsl.grouped": ("KGroupedStream",),
    "dsl.grouped_table": ("KGroupedTable",),
    "dsl.kstream": ("KStream",),
    "dsl.ktable": ("KTable",),
    "dsl.materialized": ("Materialized",),
    "dsl.suppressed": ("Suppressed",),
    "dsl.topology": ("Topology",),
    "dsl.windowed": ("SessionWindowedKStream", "TimeWindowedKStream"),
    "kafka_streams": ("KafkaStreams", "StreamThreadExceptionResponse"),
    "kernel.errors": (
        "ErrorContext",
        "RefusedRecord",
        "Response",
        "Result",
        "StreamsError",
        "log_and_continue",
        "log_and_fail",
    ),
    "kernel.processor": ("Processor", "ProcessorContext", "PunctuationType"),
    "plan.lineage.declared": ("declared_lineage",),
    "plan.stores": ("Store", "StoreKind"),
    "plan.timestamps": ("TimestampExtractor",),
    "plan.topology": ("TopologyError",),
    "plan.windows": (
        "EmitStrategy",
        "JoinWindows",
        "SessionWindows",
        "SlidingWindows",
        "TimeWindows",
        "UnlimitedWindows",
    ),
    "queries.requests": (
        "FailureReason",
        "KeyQuery",
        "MultiVersionedKeyQuery",
        "Position",
        "PositionBound",
        "RangeQuery",
        "StateQueryRequest",
        "TimestampedKeyQuery",
        "TimestampedRangeQuery",
        "VersionedKeyQuery",
        "WindowKeyQuery",
        "WindowRangeQuery",
    ),
    "records": ("KeyValue", "Record", "ValueAndTimestamp", "VersionedRecord", "Window", "Windowed"),
    "serdes.delimited": ("DelimitedSerde",),
    "serdes.json_values": ("JSON",),
    "serdes.lists": ("ListSerde",),
    "serdes.primitives": (
        "BOOLEAN",
        "BYTES",
        "DOUBLE",
        "FLOAT",
        "INTEGER",
        "LONG",
        "SHORT",
        "STRING",
        "UUID",
        "VOID",
    ),
    "serdes.schemas.avro": ("AvroSerde",),
    "serdes.schemas.json_schema": ("JsonSchemaSerde",),
    "serdes.schemas.protobuf": ("ProtobufSerde",),
    "serdes.windowed": ("SessionWindowedSerde", "TimeWindowedSerde"),
    "testing.mock_context": ("MockProcessorContext",),
    "testing.topology_test_driver": ("TopologyTestDriver",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_MODULE_OF)  # made from the table, for `from broker_streams import *`


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
