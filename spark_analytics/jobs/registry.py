"""All jobs by name, with the tables that each reads and its results.

A result is a name, a description of its rows, and a DataFrame with the most important rows first. `JOBS` are those that
need only tables; `what_if_job` creates the one that needs a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.jobs import end_to_end, forecast, lag, nodes, rebalances, skew, throughput, what_if
from spark_analytics.reassignment import Reassignment

Tables = Mapping[str, DataFrame]
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Found:
    """One result of a job."""

    name: str
    text: str
    rows: DataFrame


@dataclass(frozen=True)
class Job:
    """A job: `compute` has the tables named by `tables`."""

    name: str
    help: str
    tables: tuple[str, ...]
    compute: Callable[[Tables], Iterable[Found]]


def _throughput(of: Tables) -> Iterable[Found]:
    for name, period_ms in (("minutes", throughput.MINUTE_MS), ("hours", HOUR_MS)):
        found = throughput.throughput(of["topic_rates"], of["samples"], period_ms).persist()
        yield Found(name, f"by broker, topic and {name[:-1]}, the newest first", found.orderBy(F.desc("period")))
        whole = throughput.by_topic(found).orderBy(F.desc("period"))
        yield Found(f"topics-{name}", f"by topic and {name[:-1]} over all brokers, the newest first", whole)


def _lag(of: Tables) -> Iterable[Found]:
    found = lag.lag(of["commits"], of["rebalances"]).persist()
    newest = [F.desc("minute"), F.desc("lag_records")]
    yield Found("partitions", "by partition and minute, the newest first", found.orderBy(*newest))
    yield Found("groups", "by group and minute, the newest first", lag.by_group(found).orderBy(*newest))


def _rebalances(of: Tables) -> Iterable[Found]:
    tables = (of[name] for name in ("rebalances", "moves", "triggers", "commits", "topic_rates", "samples"))
    costs = rebalances.rebalances(*tables).persist()
    yield Found("rebalances", "the most expensive first", costs)
    for by in rebalances.SPENDERS:
        yield Found(
            f"by-{by}",
            f"costs by {by}, the most expensive first",
            rebalances.spenders(costs, of["triggers"], by),
        )


def _skew(of: Tables) -> Iterable[Found]:
    parts = skew.partitions(of["commits"]).persist()
    most = F.desc_nulls_last("times_fair")
    yield Found("partitions", "shares of partitions, the hottest first", parts.orderBy(F.desc("hot"), most))
    yield Found("topics", "topics, the least even first", skew.topics(parts).orderBy(F.desc_nulls_last("gini")))
    yield Found("brokers", "shares of brokers, the hottest first", skew.brokers(of["topic_rates"]).orderBy(most))


def _nodes(of: Tables) -> Iterable[Found]:
    found = nodes.anomalies(of["samples"], of["api_phases"])
    yield Found("anomalies", "brokers that differ from others or from their history, the newest first", found)


def _forecast(of: Tables) -> Iterable[Found]:
    yield Found("disks", "days until disks are full", forecast.disks(of["samples"]))
    yield Found("topics", "predicted bytes of topics", forecast.topics(of["topic_rates"]))


def _end_to_end(of: Tables) -> Iterable[Found]:
    found = end_to_end.end_to_end(of["commits"])
    yield Found("minutes", "by group, topic and minute, the newest first", found.orderBy(F.desc("minute")))


JOBS: dict[str, Job] = {
    each.name: each
    for each in (
        Job(throughput.NAME, throughput.HELP, ("topic_rates", "samples"), _throughput),
        Job(lag.NAME, lag.HELP, ("commits", "rebalances"), _lag),
        Job(
            rebalances.NAME,
            rebalances.HELP,
            ("rebalances", "moves", "triggers", "commits", "topic_rates", "samples"),
            _rebalances,
        ),
        Job(skew.NAME, skew.HELP, ("commits", "topic_rates"), _skew),
        Job(nodes.NAME, nodes.HELP, ("samples", "api_phases"), _nodes),
        Job(forecast.NAME, forecast.HELP, ("samples", "topic_rates"), _forecast),
        Job(end_to_end.NAME, end_to_end.HELP, ("commits",), _end_to_end),
    )
}


def what_if_job(cluster: str, plan: Sequence[Reassignment]) -> Job:
    """Return the job that predicts the effect of a plan on a cluster. It raises PlanError if the plan names resources
    that are not in the tables.
    """

    def compute(of: Tables) -> Iterable[Found]:
        asked = what_if.plan_of(of["commits"].sparkSession, cluster, plan)
        shares = skew.partitions(of["commits"]).persist()
        what_if.validate(asked, shares, of["samples"])
        loads = what_if.load(asked, shares, of["topic_rates"], of["samples"])
        yield Found("load", "load of each broker before and after the plan", loads.orderBy("broker"))
        stalls = what_if.stalls(asked, shares, of["moves"], of["commits"])
        dearest = [F.desc_nulls_last("stalled_records"), *(F.col(name) for name in ("topic", "partition", "group"))]
        yield Found("stalls", "predicted stalls of groups, the most expensive first", stalls.orderBy(*dearest))

    return Job(what_if.NAME, what_if.HELP, ("commits", "topic_rates", "samples", "moves"), compute)
