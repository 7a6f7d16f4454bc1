"""Applications as files for workers."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import broker_streams
from broker_streams import JSON, STRING, AvroSerde, JsonSchemaSerde, ProtobufSerde, StreamsBuilder
from broker_streams.application import load
from broker_streams.hosts.spark.application import SparkApplication
from broker_streams.hosts.spark.host import SparkHost
from broker_streams.hosts.spark.shipped import Shipped, packed, unpacked
from broker_streams.hosts.spark.worker import file_name

APPLICATION = """
from broker_streams import STRING, Processor, StreamsBuilder
from beside_the_application import loud

class Own(Processor):
    def process(self, record):
        self.context.forward(record.with_value(loud(record.value)))

builder = StreamsBuilder()
builder.stream("in", key=STRING, value=STRING).process(Own).map_values(lambda value: value + "!").to("out")
config = {
    "application.id": "shipped", "bootstrap.servers": "127.0.0.1:1",
    "default.key.serde": STRING, "default.value.serde": STRING,
}
"""
# A worker has neither the application's file nor the modules beside it.
WORKER = """
import sys
from broker_streams import STRING, TopologyTestDriver
from broker_streams.hosts.spark.shipped import unpacked
shipped = unpacked(open(sys.argv[1], "rb").read())
with TopologyTestDriver(shipped.topology, shipped.config) as driver:
    driver.create_input_topic("in", key=STRING, value=STRING).pipe_input("k", "tea", 1)
    print(driver.create_output_topic("out", key=STRING, value=STRING).read_value())
"""


def test_a_worker_runs_functions_of_the_application_and_of_modules_beside_it(tmp_path: Path) -> None:
    """If this fails, an application with modules of its own fails on a Spark cluster."""
    folder = tmp_path / "application"
    folder.mkdir()
    (folder / "app.py").write_text(APPLICATION)
    (folder / "beside_the_application.py").write_text("def loud(text):\n    return text.upper()\n")
    try:
        application = load(folder / "app.py")
        data = packed(Shipped(application.topology, application.config), folder)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("beside_the_application", None)
    (tmp_path / "data").write_bytes(data)
    ran = subprocess.run([sys.executable, "-c", WORKER, tmp_path / "data"], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("TEA!\n", 0), ran.stderr


SERDES = ("JSON", "STRING", "BYTES", "BOOLEAN", "UUID", "VOID", "SHORT", "INTEGER", "LONG", "FLOAT", "DOUBLE")


def serdes() -> dict[str, Any]:
    from broker_streams.serdes.delimited import DelimitedSerde
    from broker_streams.serdes.lists import ListSerde

    record = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "long"}]}
    return {
        **{name: getattr(broker_streams, name) for name in SERDES},
        "Avro": AvroSerde(record),
        "JSON Schema": JsonSchemaSerde({"type": "object"}),
        "Protobuf": ProtobufSerde('syntax = "proto3"; message Order { int64 price = 1; }'),
        "delimited": DelimitedSerde({"name": "string"}),
        "list": ListSerde(JSON),
    }


def test_each_serde_can_be_copied_to_workers() -> None:
    """If this fails, an application with this serde runs in one process, and is refused on Spark."""
    for name, serde in serdes().items():
        builder = StreamsBuilder()
        builder.stream("in", key=STRING, value=serde).to("out", key=STRING, value=serde)
        config = {"application.id": "copied", "schema.registry.url": "mock://copied", "default.value.serde": serde}
        copied = unpacked(packed(Shipped(builder.build().plan, config)))
        assert [node.name for node in copied.topology.nodes] == [
            "KSTREAM-SOURCE-0000000000",
            "KSTREAM-SINK-0000000001",
        ], name


def test_another_application_has_another_file() -> None:
    """If this fails, a worker that is still there runs an application as it was before a change."""
    assert file_name("app", b"one") != file_name("app", b"other")
    assert file_name("app", b"one") == file_name("app", b"one")


def application(name: str, **changed: object) -> SparkApplication:
    from broker_streams import STRING, StreamsBuilder

    builder = StreamsBuilder()
    builder.stream("in", key=STRING, value=STRING).to("out")
    config = {"application.id": name, "bootstrap.servers": "127.0.0.1:1"}
    given = {key.replace("_", "."): value for key, value in changed.items()}
    return SparkApplication(builder.build().plan, config | given)


def test_settings_that_cannot_be_on_spark_are_named() -> None:
    """If this fails, a setting is accepted and ignored."""
    with pytest.raises(ValueError, match=r"guarantee is at_least_once; on Spark exactly_once_v2 is allowed"):
        application("one", processing_guarantee="at_least_once")
    for given in ("many", 0):
        with pytest.raises(
            ValueError,
            match=r"(many|0) for configuration spark.streams.batch.records.max: ",
        ):
            application("one", spark_streams_batch_records_max=given)
    with pytest.raises(ValueError, match=r"application\.id one is given twice"):
        SparkHost([application("one"), application("one")])


def test_a_function_that_cannot_be_copied_is_an_error() -> None:
    """If this fails, an application with a lock in a closure fails in a worker, without a hint."""
    from broker_streams import STRING, StreamsBuilder

    lock, builder = threading.Lock(), StreamsBuilder()
    builder.stream("in", key=STRING, value=STRING).peek(lambda key, value: lock.locked()).to("out")
    config = {"application.id": "locked", "bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(ValueError, match=r"cannot be copied to Spark's workers: .*lock"):
        SparkApplication(builder.build().plan, config)
