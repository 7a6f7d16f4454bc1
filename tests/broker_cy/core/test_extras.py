"""Programs whose extra is not installed, as after `make run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker_cy.client.program import EXIT_USAGE
from broker_cy.core import extras

ROOT = Path(__file__).resolve().parents[3]
# Runs a program as if some libraries were missing. Either they are not found at all, or they are found and their import
# fails, like the import of an installed library that lacks one of its own dependencies.
WITHOUT = """
import importlib.abc, runpy, sys
package, way, *names = sys.argv[1:]
class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if way == "searched":
    sys.modules.update(dict.fromkeys(names))
else:
    import importlib.util
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: found("json") if name in names else found(name, *more)
    sys.meta_path.insert(0, Nothing())
sys.argv = [package]
runpy.run_module(package, run_name="__main__", alter_sys=True)
"""
PROGRAMS = (
    ("admin_tui", "broker-tui", "tui", "textual"),
    ("bench", "broker-bench", "bench", "confluent_kafka"),
    ("dashboard", "broker-dash", "dashboard", "argon2"),
    ("loadgen", "broker-load", "loadgen", "gevent"),
    ("spark_analytics", "broker-analytics", "analytics", "pyspark"),
    ("broker_streams", "broker-streams", "streams", "lmdb"),
)


@pytest.mark.parametrize(
    ("package", "program", "extra", "library", "way"),
    [*((*each, "searched") for each in PROGRAMS), ("dashboard", "broker-dash", "dashboard", "argon2", "imported")],
)
def test_a_program_without_its_extra_names_the_remedy(
    package: str, program: str, extra: str, library: str, way: str
) -> None:
    """If this fails, a program that `make run` did not set up ends with a traceback."""
    argv = [sys.executable, "-c", WITHOUT, package, way, library]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.stderr == (
        f"{program} needs the extra {extra}: pip install 'broker-cy[{extra}]', or make build in a checkout "
        f"(missing: {library})\n"
    )
    assert (done.returncode, done.stdout) == (EXIT_USAGE, "")


@pytest.mark.parametrize("error", [ModuleNotFoundError("x", name="broker_cy.bogus"), ImportError("x", name="click")])
def test_defects_of_our_own_are_not_hidden(error: ImportError) -> None:
    """If this fails, a defect of this distribution looks like a library that is missing."""

    def start() -> int:
        raise error

    with pytest.raises(ImportError):
        extras.run("broker-x", "x", (), start)


def test_a_library_of_another_extra_names_that_one(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, `broker-streams run --host spark` without Spark names an extra that does not bring it."""

    def start() -> int:
        raise ModuleNotFoundError("x", name="pyspark.sql")

    assert extras.run("broker-x", "x", (), start, others={"pyspark": "spark"}) == EXIT_USAGE
    assert "broker-x needs the extra spark: pip install 'broker-cy[spark]'" in capsys.readouterr().err
