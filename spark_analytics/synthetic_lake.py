"""Lakes of synthetic clusters (`spark_analytics.synthetic`): for tests of its readers, for figures and pictures."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_analytics.lake import Lake, url
from spark_analytics.planted import Answers, Size
from spark_analytics.synthetic import QUIET, tables

# The id of the Kafka cluster that the records would have come from.
SOURCE = "made-up"


def write(
    spark: SparkSession,
    lake: Lake,
    size: Size,
    seed: int = 1,
    answers: Answers = QUIET,
    cluster: str = "made-up",
) -> None:
    """Write the tables of a cluster as one complete batch, as an ingest would. Raises LakeError for a bad name, or if
    an ingest of the cluster runs, and ValueError if the cluster is in the lake already.
    """
    with lake.locked(cluster, SOURCE):
        made = lake.generation(cluster, SOURCE, 1)
        if made.complete:
            raise ValueError(f"{lake.path} has a cluster {cluster!r} already: another name is allowed")
        for name, frame in tables(spark, size, seed, answers, cluster).items():
            rows = frame.drop("cluster").write.mode("overwrite")
            rows.partitionBy("day").parquet(url(made.batch(name, 0)))
        made.note(1, {})
