"""Apache Kafka 4.3.1 from Maven Central, downloaded once on a machine; its tools; Java programs with its classes."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from broker_cy.launch import java_programs
from broker_cy.launch.cache import cache_directory, made_once
from broker_cy.launch.maven import Artifact, copy_jars
from broker_cy.launch.processes import ProcessError, run

VERSION = "4.3.1"
_ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.apache.kafka", "kafka-tools", VERSION),
    Artifact("org.apache.logging.log4j", "log4j-core", "2.25.3"),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"),
)
_LOGGING = """\
status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c %m%n
rootLogger.level = ${sys:broker_cy.log.level:-WARN}
rootLogger.appenderRef.stderr.ref = stderr
"""
# A tool runs for a second: optimizing its code costs more than it saves. The JVM's own warnings would go to its stdout.
_TOOL_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable")


def missing() -> str | None:
    """Return a sentence about a program that must be installed to run Kafka here; None if none is missing."""
    if shutil.which("java") is None:
        return "Apache Kafka needs java (Debian: apt-get install openjdk-17-jre-headless)"
    if shutil.which("mvn") is None and not _place().exists():
        return "Apache Kafka is downloaded by mvn, which is not installed (Debian: apt-get install maven)"
    return None


def _place() -> Path:
    return cache_directory() / f"kafka-{VERSION}"


@cache
def _home() -> Path:
    """Return the directory with libs/ and log4j2.properties."""
    return made_once(_place().name, _fetch)


def _fetch(directory: Path) -> None:
    libs = copy_jars(directory, _ARTIFACTS)
    if not any(libs.glob(f"kafka-tools-{VERSION}.jar")):
        raise ProcessError(f"Maven brought no kafka-tools-{VERSION}.jar into {libs}")
    (directory / "log4j2.properties").write_text(_LOGGING)


def kafka_classpath() -> str:
    """Return the class path of Kafka 4.3.1 with its tools; the first call on a machine downloads 55 MB."""
    return f"{_home() / 'libs'}/*"


def java(*flags: str, log_level: str = "WARN") -> list[str]:
    """Return the start of a command line that runs a class of Kafka; logs go to stderr."""
    return [
        "java",
        *flags,
        f"-Dlog4j2.configurationFile={_home() / 'log4j2.properties'}",
        f"-Dbroker_cy.log.level={log_level}",
        "-cp",
        kafka_classpath(),
    ]


def tool_command(class_name: str) -> list[str]:
    """Return the start of the command line of one of Kafka's tools, for programs that run it themselves."""
    archive = _home() / "tools.jsa"
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return [*java(*_TOOL_FLAGS, *shared), class_name]


def run_tool(
    class_name: str, *arguments: str | Path, stdin: bytes = b"", timeout_s: float = 90.0, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's command-line tools by its class, such as org.apache.kafka.tools.TopicCommand.

    The first run writes an archive of the loaded classes, which halves the CPU time of every later run; an incompatible
    JVM ignores it.
    """
    archive = _home() / "tools.jsa"
    if archive.exists():
        return run([*tool_command(class_name), *arguments], stdin=stdin, timeout_s=timeout_s, check=check)
    making = _home() / f"tools-making-{os.getpid()}.jsa"
    argv = [*java(*_TOOL_FLAGS, f"-XX:ArchiveClassesAtExit={making}"), class_name, *arguments]
    done = run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
    if making.exists():
        making.rename(archive)
    return done


def missing_for_programs() -> str | None:
    """Return a sentence about what programs of `program_command` lack; None if nothing is missing."""
    return java_programs.missing() or missing()


def program_command(source: Path, class_path: str) -> list[str]:
    """Return the start of the command line that runs the Java program of one source file, with its logs on stderr."""
    # Kafka's class path comes first, as in the archive of its tools.
    *start, kafka_path, _ = tool_command(source.stem)
    paths = dict.fromkeys((kafka_path, str(java_programs.classes(source, class_path)), class_path))
    return [*start, ":".join(paths), source.stem]
