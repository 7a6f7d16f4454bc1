"""The host of `broker-streams run`: the one that is asked for, or Spark where it can be."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Final, NamedTuple

from broker_streams.application import Application, ApplicationError
from broker_streams.hosts.settings import EXACTLY_ONCE
from broker_streams.settings import read

HOST: Final = "brokercy.streams.host"
SPARK, EMBEDDED = "spark", "embedded"


class Chosen(NamedTuple):
    host: str
    # The reason why it is not Spark, if no other host was asked for.
    reason: str = ""


def chosen(given: str | None, applications: Sequence[Application], *, for_spark: bool) -> Chosen:
    """`given` is --host. `for_spark`: there are other options that only Spark has.

    Raises ApplicationError: the applications ask for different hosts. ConfigError, which names a setting.
    """
    found = [read(each.config) for each in applications]
    asked = {theirs for each in found if (theirs := each.get(HOST)) is not None}
    if given is not None:
        return Chosen(given)
    if len(asked) > 1:
        raise ApplicationError(f"the applications have different values of {HOST}; --host chooses one for all")
    if asked:
        return Chosen(asked.pop())
    if for_spark or len(applications) > 1:
        return Chosen(SPARK)
    guarantee = found[0].get("processing.guarantee")
    if guarantee != EXACTLY_ONCE:
        return Chosen(EMBEDDED, f"processing.guarantee is {guarantee}")
    reason = missing()
    return Chosen(EMBEDDED, reason) if reason else Chosen(SPARK)


def missing() -> str:
    """What Spark lacks here; "" if nothing."""
    from spark_analytics.errors import SetUpError
    from spark_analytics.jars import SPARK as VERSION
    from spark_analytics.jars import check_java

    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return "PySpark is not installed"
    if version != VERSION:
        return f"PySpark {version} is installed, and {VERSION} is needed"
    try:
        check_java()
    except SetUpError as error:
        return str(error)
    return ""
