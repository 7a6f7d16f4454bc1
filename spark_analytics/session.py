"""The Spark session of a command: local unless a master is given, quiet unless asked."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_analytics import cluster
from spark_analytics.errors import SetUpError
from spark_analytics.jars import SPARK, check_java, present

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# The number of shuffle partitions on one machine, where Spark's default of 200 would create hundreds of tasks of a few
# ms. On a cluster the default applies.
SHUFFLE_PARTITIONS = 4
# Arrow would check bounds for each value that Spark reads from a Python batch; Spark checks them itself.
ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Needs:
    """The requirements of a program: the extra that it is installed by, the packages and modules of its workers, and
    options of Spark. Options of spark-submit win over `settings`.
    """

    program: str
    extra: str
    packages: tuple[str, ...] = cluster.PACKAGES
    modules: tuple[str, ...] = cluster.MODULES
    settings: Mapping[str, str] = field(default_factory=dict)


ANALYTICS = Needs("broker-analytics", "analytics")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def session(
    name: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    verbose: bool = False,
    kafka: bool = False,
    needs: Needs = ANALYTICS,
    show: Callable[[str], None] = _to_stderr,
) -> SparkSession:
    """Return the session of this process. Under spark-submit its master, memory and settings apply.

    `master` None: all cores of this machine. `verbose`: Spark's log goes to stderr, otherwise to a file, which is named
    if Spark does not start. `kafka`: with Spark's own Kafka source, which no command needs. `show` is called with the
    step that the user waits for. Raises SetUpError.
    """
    check_java()
    try:
        import pyspark
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise SetUpError(f"PySpark is missing: pip install 'broker-cy[{needs.extra}]'") from None
    if pyspark.__version__ != SPARK:
        raise SetUpError(f"PySpark {pyspark.__version__} is installed, and {SPARK} is needed")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_submitted:
        SparkContext._ensure_initialized()  # from now on, SparkConf() has the settings that spark-submit was given
    conf = SparkConf()
    if master is not None or not is_submitted:
        conf.setMaster(master or "local[*]")
    if not is_submitted:
        conf.set("spark.driver.memory", memory)
    conf.set("spark.log.level", "INFO" if verbose else "ERROR")
    for option, value in needs.settings.items():
        conf.setIfMissing(option, value)
    conf.set("spark.app.name", f"{needs.program} {name}")
    _configure(conf, kafka)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    on_cluster = not cluster.is_local(conf.get("spark.master", "") or "")
    if on_cluster:
        cluster.prepare(conf)
    else:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    if not is_submitted:
        _launch(conf, verbose)
    try:
        context = SparkContext.getOrCreate(conf)
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage()).partition("\n")[0]
        raise SetUpError(f"Spark did not start on {conf.get('spark.master', '')}: {reason}") from None
    if on_cluster:
        cluster.ship(context, needs.packages)
        cluster.check_workers(context, show, needs.modules, needs.extra)
    return SparkSession(context)


def _configure(conf: SparkConf, kafka: bool) -> None:
    """Set the options that the commands need, and better defaults than Spark's for options that are not given."""
    if kafka:
        given = conf.get("spark.jars", "")
        conf.set("spark.jars", ",".join([*([given] if given else []), *map(str, present())]))
    conf.set("spark.sql.session.timeZone", "UTC")
    conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    conf.set("spark.sql.python.filterPushdown.enabled", "true")
    conf.setIfMissing("spark.ui.enabled", "false")
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    conf.setIfMissing("spark.driver.extraJavaOptions", ARROW_UNCHECKED)
    conf.setIfMissing("spark.executor.extraJavaOptions", ARROW_UNCHECKED)
    if cluster.is_local(conf.get("spark.master", "") or ""):
        conf.setIfMissing("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS))
        conf.setIfMissing("spark.python.unix.domain.socket.enabled", "true")


def _launch(conf: Any, verbose: bool) -> None:
    """Start the JVM with its log in a file: PySpark itself would mix it with the output of the command."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # there is one JVM for each process
    with ExitStack() as stack:
        settings: dict[str, Any] = {}
        if not verbose:
            # A new file, because others may be able to write to that directory.
            log = stack.enter_context(
                tempfile.NamedTemporaryFile("w", prefix="broker-analytics-", suffix=".log", delete=False)
            )
            settings["stderr"] = log
        try:
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, settings))
        except PySparkRuntimeError as error:
            raise SetUpError(f"Spark did not start ({error}){'' if verbose else f'; its log: {log.name}'}") from None
    if not verbose:
        os.unlink(log.name)  # the JVM keeps it open; its log is only needed while it starts
