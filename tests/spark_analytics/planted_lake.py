"""A lake of two made-up clusters that several files share: it takes 25 s of CPU to make one."""

from __future__ import annotations

import fcntl
import shutil
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
# Too little history for a forecast, and nothing wrong.
SMALL, SMALL_SIZE = "small", Size(days=1, sample_s=600, commit_s=1200)


def made(spark: SparkSession, folder: Path) -> Lake:
    """Return the lake in a folder; the first process that asks makes it, while others wait."""
    lake = Lake(folder / "lake")
    with open(folder / "lake.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lake.path.exists():
            # Renamed when it is complete: a process that was stopped leaves none.
            making = Lake(folder / "lake-making")
            shutil.rmtree(making.path, ignore_errors=True)
            synthetic_lake.write(spark, making, SIZE, SEED, ANSWERS, PLANTED)
            synthetic_lake.write(spark, making, SMALL_SIZE, 6, cluster=SMALL)
            making.path.rename(lake.path)
    return lake
