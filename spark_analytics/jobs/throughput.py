"""Records and bytes in and out, by broker and topic, in each minute or hour.

`throughput` returns one row for each cluster, broker, topic and period in which the topic had traffic:

    cluster, broker, topic    the broker that counted: records and bytes in by the leader of the partition, bytes out by
                              the broker that answered the fetch, replicas included
    period                    start of the period (UTC)
    records                   records appended
    in_bytes, out_bytes       bytes appended, and fetched
    samples                   samples of the broker that ended in the period, those without traffic of the topic
                              included
    covered_ms                sum of their intervals
    covered_share             share of the period that has samples: 0 to 1
    records_per_s, in_bytes_per_s, out_bytes_per_s
                              over the covered time, not over the period: a gap does not make a rate lower
    records_p50_per_s, records_p99_per_s, records_max_per_s, and the same of in_bytes and out_bytes
                              nearest rank of the rates of the samples, each over its own interval; a sample in which
                              the topic had no traffic counts as 0
    left_out                  samples that listed only the 500 busiest topics of the broker: in these, the topic may
                              have had traffic that is not counted, less than that of the least busy listed topic
                              listed

`by_topic` returns the totals over the brokers of a cluster:

    cluster, topic, period
    brokers                   brokers on which the topic had traffic
    records, in_bytes, out_bytes
    records_per_s, in_bytes_per_s, out_bytes_per_s
                              sums of the rates of the brokers, each over the time that its samples cover
    covered_share             the smallest of these brokers

`coverage` distinguishes a gap from silence. It returns one row for each cluster, broker and period with samples:
`samples`, `covered_ms`, `covered_share`, `left_out`. A period without a row is a gap. A period with a row here, but
without one in `throughput` for a topic, has no traffic of the topic.

A sample belongs to the period in which it ends, so it may count up to one interval (usually 1 s) of the period before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.jobs.ranks import quantile

NAME = "throughput"
HELP = "records and bytes in and out by broker and topic, per minute or hour, with p50, p99 and maximum of the rates"

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_COUNTS = ("records", "in_bytes", "out_bytes")
_QUANTILES = (("p50", 0.5), ("p99", 0.99))


def throughput(topic_rates: DataFrame, samples: DataFrame, period_ms: int = MINUTE_MS) -> DataFrame:
    """Return the rows described above from the tables `topic_rates` and `samples`. Raises ValueError for a period that
    does not divide a day.

    The rates of a period's samples are collected to be ranked: 3,600 of each of three kinds for an hour with a sample
    each second, about 90 KB.
    """
    seconds = F.col("interval_ms") / 1000
    # An interval of 0 ms has no rate; its counts are still counts.
    rated = topic_rates.withColumnRenamed("in_records", "records").where(F.col("topic").isNotNull())
    sums = [F.sum(name).alias(name) for name in _COUNTS]
    rates = [
        F.sort_array(F.collect_list(F.when(seconds > 0, F.col(name) / seconds))).alias(f"{name}_rates")
        for name in _COUNTS
    ]
    found = rated.groupBy("cluster", "broker", "topic", _window(period_ms)).agg(*sums, *rates)
    joined = found.join(_covered(samples, period_ms), ["cluster", "broker", "window"])
    return joined.select(
        "cluster",
        "broker",
        "topic",
        F.col("window.start").alias("period"),
        *_COUNTS,
        *_coverage_columns(period_ms),
        *(_per_s(name).alias(f"{name}_per_s") for name in _COUNTS),
        *(each for name in _COUNTS for each in _ranked(name)),
        "left_out",
    )


def by_topic(found: DataFrame) -> DataFrame:
    """Return the totals over the brokers of the rows of `throughput`."""
    sums = [F.sum(name).alias(name) for name in (*_COUNTS, *(f"{each}_per_s" for each in _COUNTS))]
    return found.groupBy("cluster", "topic", "period").agg(
        F.count("broker").alias("brokers"), *sums, F.min("covered_share").alias("covered_share")
    )


def coverage(samples: DataFrame, period_ms: int = MINUTE_MS) -> DataFrame:
    """Return the part of each period that has samples of each broker."""
    found = _covered(samples, period_ms)
    return found.select(
        "cluster", "broker", F.col("window.start").alias("period"), *_coverage_columns(period_ms), "left_out"
    )


def _covered(samples: DataFrame, period_ms: int) -> DataFrame:
    return samples.groupBy("cluster", "broker", _window(period_ms)).agg(
        F.count("*").alias("samples"),
        F.count_if(F.col("interval_ms") > 0).alias("rated"),
        F.sum("interval_ms").alias("covered_ms"),
        F.count_if(F.col("topics_left_out") > 0).alias("left_out"),
    )


def _window(period_ms: int) -> Column:
    # A period that does not divide a day would begin at another time each day.
    if period_ms <= 0 or DAY_MS % period_ms:
        raise ValueError(f"a period of {period_ms} ms: it must divide a day ({DAY_MS} ms)")
    return F.window("at", f"{period_ms} milliseconds").alias("window")


def _coverage_columns(period_ms: int) -> list[Column]:
    share = F.least(F.lit(1.0), F.col("covered_ms") / F.lit(period_ms))
    return [F.col("samples"), F.col("covered_ms"), share.alias("covered_share")]


def _per_s(name: str) -> Column:
    return F.when(F.col("covered_ms") > 0, F.col(name) * 1000 / F.col("covered_ms"))


def _ranked(name: str) -> list[Column]:
    rates, count = F.col(f"{name}_rates"), F.col("rated")
    found = [quantile(rates, count, share).alias(f"{name}_{text}_per_s") for text, share in _QUANTILES]
    return [*found, quantile(rates, count, 1.0).alias(f"{name}_max_per_s")]
