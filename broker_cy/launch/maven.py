"""Jars and archives of Maven Central in a folder, by Maven itself."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from broker_cy.launch.processes import run

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_COPY = f"{_PLUGIN}:copy-dependencies"
_TIMEOUT_S = 280


@dataclass(frozen=True)
class Artifact:
    """One artifact. `without` are excluded dependencies, as (group, artifact); "*" is any."""

    group: str
    name: str
    version: str
    without: tuple[tuple[str, str], ...] = ()

    @property
    def xml(self) -> str:
        excluded = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>"
            for group, name in self.without
        )
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><exclusions>{excluded}</exclusions></dependency>"
        )


def copy_jars(directory: Path, artifacts: Iterable[Artifact]) -> Path:
    """Copy the artifacts and their dependencies into `directory`/libs; returns that folder. Raises ProcessError."""
    pom = directory / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>broker-cy</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(each.xml for each in artifacts)}</dependencies></project>"
    )
    libs = directory / "libs"
    run(["mvn", "-q", "-B", "-f", pom, _COPY, f"-DoutputDirectory={libs}"], timeout_s=_TIMEOUT_S)
    return libs


def copy_archive(directory: Path, coordinates: str) -> None:
    """Unpack an archive into `directory`. `coordinates` are GROUP:NAME:VERSION:tar.gz:CLASSIFIER. Raises
    ProcessError.
    """
    where = directory / "archive"
    options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={where}", "-Dmdep.useBaseVersion=true"]
    run(["mvn", "-q", "-B", f"{_PLUGIN}:copy", *options], timeout_s=_TIMEOUT_S)
    (archive,) = where.iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    archive.unlink()
    where.rmdir()
