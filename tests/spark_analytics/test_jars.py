"""The messages if Java, Maven or the jars of Spark's Kafka source are missing."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from spark_analytics.errors import SetUpError
from spark_analytics.jars import SPARK, check_java, fetch, present


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (None, r"Spark needs Java 17, and there is none \(Debian: apt-get install openjdk-17"),
        ('openjdk version "11.0.2" 2019-01-15', r"Spark needs Java 17 or later, and .*/java is 11"),
        ('java version "1.8.0_202"', r"Spark needs Java 17 or later, and .*/java is 1"),
    ],
)
def test_an_unsuitable_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str | None, text: str
) -> None:
    """If this fails, a machine without Java, or with an old one, gets an unrelated error of PySpark."""
    if printed is not None:
        program(tmp_path, "java", f"echo '{printed}' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetUpError, match=text):
        check_java()


def test_the_jars_are_those_of_the_installed_spark() -> None:
    """If this fails, no command runs after a change of PySpark in the requirements, and the tests that would show it
    are skipped.
    """
    assert version("pyspark") == SPARK
    assert f"pyspark=={SPARK}" in (Path(__file__).resolve().parents[2] / "requirements" / "analytics.in").read_text()


def test_java_17_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, no command that needs Spark starts."""
    program(tmp_path, "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    check_java()


def test_missing_jars_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the error does not name the command that downloads the jars, or that it needs Maven, or a failed
    download counts as the jars.
    """
    monkeypatch.setenv("BROKER_CY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetUpError, match=r"there are no jars in .*: run `broker-analytics jars`"):
        present()
    with pytest.raises(SetUpError, match=r"downloaded by mvn \(Debian: apt-get install maven\)"):
        fetch()
    program(tmp_path, "mvn", "echo 'Could not transfer artifact' >&2; exit 1")
    with pytest.raises(SetUpError, match="could not be downloaded"):
        fetch()
    with pytest.raises(SetUpError, match="there are no jars"):
        present()
