"""The Spark session of a command: local unless a master is given, quiet unless asked, with the Kafka source."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_analytics.jars import SPARK, SetUpError, check_java, present

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of shuffles on one machine; 200, Spark's default, makes hundreds of tiny files and tasks of a few ms.
SHUFFLE_PARTITIONS = 4
LOOPBACK = "127.0.0.1"


def session(
    name: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    verbose: bool = False,
    options: Mapping[str, str] | None = None,
    kept_open: Sequence[int] = (),
) -> SparkSession:
    """Return the session of this process. Under spark-submit its master and memory apply.

    `master` None: all cores of this machine. `verbose`: Spark's log goes to stderr, otherwise to a file, which is named
    if Spark does not start. `kept_open` are descriptors that the JVM keeps open until it has ended. Raises SetUpError.
    """
    check_java()
    try:
        import pyspark
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise SetUpError("PySpark is missing: pip install 'broker-cy[analytics]'") from None
    if pyspark.__version__ != SPARK:
        raise SetUpError(f"PySpark {pyspark.__version__} is installed, and {SPARK} is needed")
    settings = {
        "spark.app.name": f"broker-analytics {name}",
        "spark.jars": ",".join(map(str, present())),
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        **(options or {}),
    }
    conf = SparkConf()
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is not None or not is_submitted:
        conf.setMaster(master or "local[*]")
    if not is_submitted:
        settings["spark.driver.memory"] = memory
    for key, value in settings.items():
        conf.set(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if conf.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    if not is_submitted:
        _launch(conf, verbose, kept_open)
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("INFO" if verbose else "ERROR")
    return SparkSession(context)


def _launch(conf: Any, verbose: bool, kept_open: Sequence[int]) -> None:
    """Start the JVM with its log in a file: PySpark itself would mix it with what the command prints."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # there is one JVM for each process
    log = Path(tempfile.gettempdir()) / f"broker-analytics-{os.getpid()}.log"
    with open(os.devnull if verbose else log, "w") as quiet:
        extra: dict[str, Any] = {"pass_fds": tuple(kept_open)}
        if not verbose:
            extra["stderr"] = quiet
        try:
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, extra))
        except PySparkRuntimeError as error:
            raise SetUpError(f"Spark did not start ({error}); its log: {log}") from None
    log.unlink(missing_ok=True)  # the JVM keeps it open; what it still logs is only needed while it starts
