"""A lake of two made-up clusters that several test files share, because making it takes 25 s of CPU."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_analytics import synthetic_lake
from spark_analytics.lake import Lake
from spark_analytics.planted import Size, plant

# Four days: the backtest of a forecast needs three of them, and predicts one. Samples each 3 min are as rare as
# those of an anomaly may be; with much rarer commits, a group would look stalled.
PLANTED, SIZE, SEED = (
    "planted",
    Size(days=4, topics=2, partitions=3, sample_s=180, commit_s=60, rebalance_s=8 * 3600),
    5,
)
ANSWERS = plant(SIZE, SEED, slow=1)
# Too little history for a forecast, and no anomalies.
SMALL, SMALL_SIZE = "small", Size(days=1, sample_s=600, commit_s=1200)


def made(spark: SparkSession, folder: Path) -> Lake:
    """Write the lake into a folder."""
    lake = Lake(folder / "lake")
    synthetic_lake.write(spark, lake, SIZE, SEED, ANSWERS, PLANTED)
    synthetic_lake.write(spark, lake, SMALL_SIZE, 6, cluster=SMALL)
    return lake
