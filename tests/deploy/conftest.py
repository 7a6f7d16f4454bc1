"""Labs of hosts for the tests of this directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.base import base
from tests.deploy.host import Shape
from tests.deploy.lab import Lab
from tests.deploy.times import TIMES
from tests.support import needs


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the times."""
    for what, seconds in TIMES:
        terminalreporter.write_line(f"deployment: {what}: {seconds:.1f} s")


@pytest.fixture(scope="session")
def lab_base() -> None:
    """The base of all hosts; if this machine cannot build one, the test is skipped with the reason."""
    needs.require(needs.lab_hosts())
    shape = Shape()
    root = Lab("base").root
    _sweep(root)
    base(root, shape.suite, shape.packages)


def _sweep(root: Path) -> None:
    """Remove the labs of test runs that were killed before they could do it."""
    for owner in root.glob("lab-*/owner"):
        if not Path("/proc", owner.read_text()).exists():
            Lab(owner.parent.name.removeprefix("lab-")).destroy()


@pytest.fixture(scope="module")
def make_lab(lab_base: None) -> Iterator[Callable[..., Lab]]:
    """Makes labs that end with the tests of a module: `make_lab("years", 3, Shape(disk="4G"))`."""
    with ExitStack() as stack:

        def make(name: str, count: int, shape: Shape | None = None) -> Lab:
            # Parallel test runs on one machine use different names.
            lab = Lab(f"{name[:12]}{os.getpid()}")
            stack.callback(lab.destroy)
            lab.directory.mkdir(parents=True)
            (lab.directory / "owner").write_text(str(os.getpid()))
            lab.up(count, shape)
            return lab

        yield make
