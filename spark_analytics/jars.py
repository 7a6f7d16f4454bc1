"""The versions of Spark and of its Kafka source, in one place, and the source's jars in a folder.

`spark.jars.packages` is not used: it resolves at each start, and sql-kafka 4.2.0 names a token provider that exists
only as 4.0.0 on Maven Central. Version 4.2.0 needs the same symbols of it. What Spark brings itself (Scala's library,
slf4j, lz4, snappy) is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from broker_cy.launch.cache import cache_directory, made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import ProcessError
from spark_analytics.errors import SetUpError

SPARK = "4.2.0"
TOKEN_PROVIDER = "4.0.0"
JAVA_LEAST = 17
_GROUP = "org.apache.spark"
_SPARKS_OWN = (
    (_GROUP, "spark-token-provider-kafka-0-10_2.13"),
    ("org.scala-lang", "scala-library"),
    ("org.slf4j", "*"),
    ("org.lz4", "*"),
    ("at.yawk.lz4", "*"),
    ("org.xerial.snappy", "*"),
    ("com.google.code.findbugs", "*"),
)
ARTIFACTS = (
    Artifact(_GROUP, "spark-sql-kafka-0-10_2.13", SPARK, _SPARKS_OWN),
    Artifact(_GROUP, "spark-token-provider-kafka-0-10_2.13", TOKEN_PROVIDER, (("*", "*"),)),
)
_FOLDER = f"spark-jars-{SPARK}"


def check_java() -> None:
    """Raise SetUpError if Java is missing, or is a version that Spark does not support."""
    java = shutil.which("java")
    if java is None:
        raise SetUpError(
            f"Spark needs Java {JAVA_LEAST}, and there is none (Debian: apt-get install openjdk-17-jre-headless)"
        )
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', printed)
    if found is None or int(found[1]) < JAVA_LEAST:
        version = found[1] if found else printed.strip().splitlines()[:1]
        raise SetUpError(f"Spark needs Java {JAVA_LEAST} or later, and {java} is {version}")


def fetch() -> list[Path]:
    """Return the jars, which the first call on a machine downloads (11 MB). Raises SetUpError."""
    if not (cache_directory() / _FOLDER).exists() and shutil.which("mvn") is None:
        raise SetUpError("the jars of Spark's Kafka source are downloaded by mvn (Debian: apt-get install maven)")
    try:
        return _jars(made_once(_FOLDER, _copy))
    except ProcessError as error:
        raise SetUpError(f"the jars of Spark's Kafka source could not be downloaded: {error}") from None


def present() -> list[Path]:
    """Return the jars that `fetch` downloaded. Raises SetUpError without them."""
    folder = cache_directory() / _FOLDER
    if not folder.exists():
        raise SetUpError(f"there are no jars in {folder}: run `broker-analytics jars`")
    return _jars(folder)


def _copy(directory: Path) -> None:
    copy_jars(directory, ARTIFACTS)


def _jars(folder: Path) -> list[Path]:
    return sorted((folder / "libs").glob("*.jar"))
