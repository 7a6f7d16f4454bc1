"""A SELECT without state by the kernel, and by Spark's own operators: records in a second of CPU, without a broker.

    python -m bench.studies.micro_columns

Both read the same records as bytes and make the same bytes. The kernel runs the topology of the statement. Spark has
the records from a Python worker as Arrow, reads and writes JSON itself, computes the columns of
`broker_sql.expressions.columns`, and gives the results to a Python worker, which would write them to a broker. CPU is
that of all processes, the best of several rounds. It needs the extra `spark`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import psutil

from broker_cy.wire.record import Record
from broker_sql import dialect
from broker_sql.analysis.settings import Settings
from broker_sql.catalog import Catalog
from broker_sql.expressions import Scope, columns, compile_all, predicate
from broker_sql.functions import standard
from broker_sql.planner import plan
from broker_sql.statements import CreateAs, SelectItem
from broker_streams import STRING
from broker_streams.kernel.build import build
from broker_streams.kernel.settings import TaskSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession

ROUNDS: Final = 5
BATCHES: Final = 40
BATCH: Final = 10_000
SOURCE: Final = "CREATE STREAM orders (id BIGINT, item STRING, price DOUBLE, quantity INT) WITH ({});"
WITH: Final = "kafka_topic='in', value_format='JSON', partitions=1"
SELECT: Final = "CREATE STREAM large AS SELECT id, price * quantity AS total, item FROM orders WHERE quantity > 50;"


def values() -> list[bytes]:
    return [
        json.dumps(
            {"ID": place, "ITEM": f"item-{place % 100}", "PRICE": place % 1000 / 10, "QUANTITY": place % 100},
            separators=(",", ":"),
        ).encode()
        for place in range(BATCH)
    ]


def kernel_rate() -> float:
    catalog, settings = Catalog(), Settings(standard(), {"ksql.service.id": "study"})
    for statement in dialect.parse(SOURCE.format(WITH) + SELECT):
        planned = plan(statement, catalog, settings)
        catalog = catalog.apply_all(planned.changes)
    assert planned.topology is not None
    topology = planned.topology.plan
    task = build(topology, topology.subtopologies()[0], 0, TaskSettings("study", STRING, STRING), lambda topic: 1)
    task.assign("in", 0)
    task.initialize(0)
    found, offset = values(), 0

    def batches() -> None:
        nonlocal offset
        for _ in range(BATCHES):
            task.add("in", 0, [Record(offset + place, 0, None, value) for place, value in enumerate(found)], 0)
            offset += BATCH
            task.run(0)
            task.take_results()

    return best_rate(batches)


def spark_rate(spark: SparkSession) -> float:
    from pyspark.sql import functions

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        found = values()
        for _ in batches:
            for _ in range(BATCHES):
                yield pa.RecordBatch.from_arrays([pa.array(found)], names=["value"])

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        count = sum(len(batch.column(0).to_pylist()) for batch in batches)
        yield pa.RecordBatch.from_arrays([pa.array([count])], names=["count"])

    def batches() -> None:
        frame = spark.range(1).coalesce(1).mapInArrow(read, "value binary")
        row = functions.from_json(frame["value"].cast("string"), SCHEMA)
        frame = frame.select(row.alias("row"))
        inputs = [frame["row"].getField(name) for name in NAMES]
        where, results = lowered(inputs)
        of_json = functions.to_json(functions.struct(*results)).cast("binary")
        frame.filter(where).select(of_json.alias("value")).mapInArrow(write, "count bigint").collect()

    batches()
    return best_rate(batches)


NAMES: Final = ("ID", "ITEM", "PRICE", "QUANTITY")
SCHEMA: Final = "ID bigint, ITEM string, PRICE double, QUANTITY int"


def lowered(inputs: list[Column]) -> tuple[Column, list[Column]]:
    """The condition and the results of SELECT as Spark's columns."""
    kinds = [dialect.parse_type(kind) for kind in ("BIGINT", "STRING", "DOUBLE", "INT")]
    scope = Scope({(None, name): (place, kind) for place, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))})
    statement = dialect.parse(SELECT)[0]
    assert isinstance(statement, CreateAs)
    query = statement.query
    assert query.where is not None
    compiled, _ = compile_all([item.expression for item in query.items if isinstance(item, SelectItem)], scope)
    found = [columns.column(each.tree, inputs) for each in (predicate(query.where, scope), *compiled)]
    where, *results = (each for each in found if each is not None)
    return where, [each.alias(name) for each, name in zip(results, ("ID", "TOTAL", "ITEM"), strict=True)]


def best_rate(work: Callable[[], None]) -> float:
    """Return the records in a second of CPU in the best round."""
    rates = []
    for _ in range(ROUNDS):
        began_s = cpu_s()
        work()
        rates.append(BATCHES * BATCH / (cpu_s() - began_s))
    return max(rates)


def cpu_s() -> float:
    """Return the CPU of this process and of all below it."""
    me = psutil.Process()
    total = 0.0
    for each in (me, *me.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + (0.0 if each is me else times.children_user + times.children_system)
    return total


def main() -> None:
    """Print both rates."""
    from pyspark.sql import SparkSession

    print(f"kernel             {kernel_rate():10,.0f} records/s of CPU")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("micro_columns").config("spark.log.level", "ERROR")
    for name, value in {**columns.SETTINGS, "spark.ui.enabled": "false", "spark.driver.memory": "2g"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    print(f"Spark's operators  {spark_rate(spark):10,.0f} records/s of CPU")
    spark.stop()


if __name__ == "__main__":
    main()
