"""The first rows of each cluster, and the rows with given keys: these limit the data that is sent to the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def ms(at: Column) -> Column:
    """Return a time as ms since 1970: Python would interpret a timestamp in this machine's zone."""
    return F.unix_millis(at)


def best(
    rows: DataFrame, most: int, order: Sequence[Column], sums: Sequence[str] = (), of: Sequence[str] = ("cluster",)
) -> dict[str, list[Any]]:
    """Return the first `most` rows of each cluster in this order, by cluster (or those of each value of the columns
    `of`, in the order of these). `total` is the number of all rows of the cluster, and NAME_sum the sum of a column of
    `sums` over them.
    """
    whole = Window.partitionBy(*of)
    ranked = rows.withColumns({
        "place": F.row_number().over(whole.orderBy(*order)),
        "total": F.count("*").over(whole),
        **{f"{name}_sum": F.sum(name).over(whole) for name in sums},
    })  # fmt: skip
    found: dict[str, list[Any]] = defaultdict(list)
    # These are few rows, so they are sorted here: Spark would need two more jobs for it.
    few = ranked.where(F.col("place") <= most).collect()
    for row in sorted(few, key=lambda row: (*(row[name] for name in of), row["place"])):
        found[row["cluster"]].append(row)
    return dict(found)


def place_of(key: str, keys: Mapping[str, Sequence[Any]], otherwise: int) -> Column:
    """Return the place of a row's key among the `keys` of its cluster."""
    places = [
        F.when((F.col("cluster") == cluster) & (F.col(key) == each), place)
        for cluster, of in keys.items()
        for place, each in enumerate(of)
    ]
    return F.coalesce(*places, F.lit(otherwise))


def is_one_of(key: str, keys: Mapping[str, Sequence[Any]]) -> Column:
    """Return whether a row's key is one of the `keys` of its cluster."""
    found = F.lit(False)
    for cluster, of in keys.items():
        found = found | ((F.col("cluster") == cluster) & F.col(key).isin(list(of)))
    return found
