"""The first rows of each cluster, and the keys with the most: what bounds what comes to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def ms(at: Column) -> Column:
    """Return a time as ms since 1970: Python would take a timestamp for one of this machine's zone."""
    return F.unix_millis(at)


def best(rows: DataFrame, most: int, order: Sequence[Column], sums: Sequence[str] = ()) -> list[Any]:
    """Return the first `most` rows of each cluster in this order. `total` is the number of all rows of the cluster, and
    NAME_sum the sum of a column of `sums` over them.
    """
    whole = Window.partitionBy("cluster")
    found = rows.withColumns({
        "place": F.row_number().over(whole.orderBy(*order)),
        "total": F.count("*").over(whole),
        **{f"{name}_sum": F.sum(name).over(whole) for name in sums},
    })  # fmt: skip
    return found.where(F.col("place") <= most).orderBy("cluster", "place").collect()


def places(rows: DataFrame, key: str, order: Sequence[Column], most: int) -> tuple[DataFrame, dict[str, list[Any]]]:
    """Return the rows with `place`, and the keys of the places by cluster. `rows` has a row for each cluster and key;
    the first `most` in this order have the places from 0 on, all others have `most`.
    """
    number = F.row_number().over(Window.partitionBy("cluster").orderBy(*order)) - 1
    placed = rows.select("cluster", key, F.least(number, F.lit(most)).alias("place")).persist()
    keys: dict[str, list[Any]] = {}
    for row in placed.where(F.col("place") < most).orderBy("cluster", "place").collect():
        keys.setdefault(row["cluster"], []).append(row[key])
    return placed, keys
