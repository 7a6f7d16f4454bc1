"""The wheel works without the repository: every command, with and without the extras.

Under `make test-all` with this Python, packages that are already installed, and extensions that are already compiled;
under `make soak` with every Python version available, packages of the index, and everything compiled from the source
distribution.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from broker_cy.client.program import EXIT_USAGE
from broker_cy.launch.processes import run
from tests.packaging import commands
from tests.packaging.distributions import NAME, Environment, requirements_of
from tests.support import needs
from tests.support.environments import find_python

# Each command that needs an extra, with its name.
WITH_EXTRAS = (
    ("broker-tui", "tui"),
    ("broker-bench", "bench"),
    ("broker-dash", "dashboard"),
    ("broker-load", "loadgen"),
    ("broker-analytics", "analytics"),
    ("broker-streams", "streams"),
    ("broker-sql", "sql"),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Imports every module of the distribution except those that are programs, and the one that needs the extra `gssapi`,
# which is not in `all`.
IMPORT_ALL = """
import importlib, pkgutil, sys
ROOMS = "broker_cy broker_mirror broker_registry broker_sql broker_streams bench admin_tui dashboard spark_analytics"
for room in ROOMS.split():
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(package.__path__, room + "."):
        if not module.name.endswith(("__main__", "spark_analytics.main", "broker_cy.client.kerberos")):
            importlib.import_module(module.name)
assert not any(name.partition(".")[0] in ("tests", "demo", "tools") for name in sys.modules)
"""
INSTALL_TIMEOUT_S = 900.0

pytestmark = pytest.mark.full


@pytest.fixture
def environment(tmp_path: Path, wheel: Path) -> Environment:
    """The wheel and the packages that its metadata requires without extras, and nothing else."""
    made = Environment(tmp_path / "venv", wheel)
    made.link(requirements_of(NAME))
    return made


def test_the_command_runs_with_the_base_requirements(environment: Environment, tmp_path: Path) -> None:
    """If this fails, `pip install broker-cy` gives a command that needs the repository, or a library that the metadata
    does not name.
    """
    assert environment.pip("check") == "No broken requirements found.\n"
    commands.run_broker_cy(environment.program("broker-cy"), tmp_path)


@pytest.mark.parametrize(("program", "extra"), WITH_EXTRAS)
def test_a_command_without_its_extra_says_what_to_install(
    environment: Environment, tmp_path: Path, program: str, extra: str
) -> None:
    """If this fails, a missing library causes a traceback, or a failure after minutes of measuring."""
    environment.link(requirements_of(NAME, [extra]))
    direct = [Requirement(text) for text in metadata.requires(NAME) or ()]
    names = [each.name for each in direct if each.marker is not None and f'extra == "{extra}"' in str(each.marker)]
    assert names
    for name in names:
        environment.unlink(name)
        said = run([environment.program(program), "--help"], cwd=tmp_path, env={"PYTHONPATH": ""}, check=False)
        assert said.returncode == EXIT_USAGE
        remedy = rf"pip install 'broker-cy\[{extra}\]', or make build in a checkout"
        expected = rf"{program} needs the extra {extra}: {remedy} \(missing: \w+\)\n"
        assert re.fullmatch(expected, said.stderr.decode())
        environment.link([name])
    said = run([environment.program(program), "--help"], cwd=tmp_path, env={"PYTHONPATH": ""})
    assert said.stdout.lower().startswith(b"usage: " + program.encode())


def test_streams_run_without_spark(environment: Environment, tmp_path: Path) -> None:
    """If this fails, `pip install 'broker-cy[streams]'` runs no application, or brings half a gigabyte of Spark."""
    assert "pyspark" not in requirements_of(NAME, ["streams"])
    assert "pyspark" in requirements_of(NAME, ["spark"])
    environment.link(requirements_of(NAME, ["streams"]))
    assert environment.pip("check") == "No broken requirements found.\n"
    commands.run_broker_streams(environment.program("broker-streams"), tmp_path, environment.program("broker-cy"))


def test_every_command_runs_with_all_extras(environment: Environment, tmp_path: Path) -> None:
    """If this fails, `pip install 'broker-cy[all]'` lacks a file or library that is found only in the repository."""
    environment.link(requirements_of(NAME, ["all"]))
    assert environment.pip("check") == "No broken requirements found.\n"
    run([environment.program("python"), "-c", IMPORT_ALL], cwd=tmp_path, env={"PYTHONPATH": ""})
    commands.run_broker_tui(environment.program("broker-tui"), tmp_path, environment.program("broker-cy"))
    commands.run_broker_bench(environment.program("broker-bench"), tmp_path)
    commands.run_broker_dash(environment.program("broker-dash"), tmp_path, environment.program("broker-cy"))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_builds_and_runs_it(version: str, sdist: Path, tmp_path: Path) -> None:
    """If this fails, a Python named in the metadata cannot compile the source distribution or run a command."""
    needs.require(needs.python(version))
    python = find_python(version)
    run([python, "-m", "venv", tmp_path / "venv"], timeout_s=120)
    binaries = tmp_path / "venv" / "bin"
    environment = {"PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def pip(*arguments: str | Path) -> None:
        run([binaries / "python", "-m", "pip", *arguments], cwd=tmp_path, timeout_s=INSTALL_TIMEOUT_S, env=environment)

    # pip builds it in an isolated environment.
    pip("wheel", "-q", "--no-deps", "-w", tmp_path / "dist", sdist)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    pip("install", "-q", wheel)
    commands.run_broker_cy(binaries / "broker-cy", tmp_path)
    for program, extra in WITH_EXTRAS:
        said = run([binaries / program, "--help"], cwd=tmp_path, env=environment, check=False)
        assert (said.returncode, f"broker-cy[{extra}]" in said.stderr.decode()) == (EXIT_USAGE, True), said.stderr
    pip("install", "-q", f"{wheel}[all]")
    pip("check")
    run([binaries / "python", "-W", "error::SyntaxWarning", "-c", IMPORT_ALL], cwd=tmp_path, env=environment)
    commands.run_broker_tui(binaries / "broker-tui", tmp_path, binaries / "broker-cy")
    commands.run_broker_bench(binaries / "broker-bench", tmp_path)
    commands.run_broker_dash(binaries / "broker-dash", tmp_path, binaries / "broker-cy")
