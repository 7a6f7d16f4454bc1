"""Labs of hosts for the tests of this directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.deploy.base import base, missing
from tests.deploy.host import Shape
from tests.deploy.lab import Lab
from tests.deploy.times import TIMES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the times."""
    for what, seconds in TIMES:
        terminalreporter.write_line(f"deployment: {what}: {seconds:.1f} s")


@pytest.fixture(scope="session")
def lab_base() -> None:
    """The base of all hosts, or a skipped test with the reason why there can be none."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    shape = Shape()
    base(Lab("base").root, shape.suite, shape.packages)


@pytest.fixture(scope="module")
def make_lab(lab_base: None) -> Iterator[Callable[..., Lab]]:
    """Makes labs that end with the tests of a module: `make_lab("years", 3, Shape(disk="4G"))`."""
    with ExitStack() as stack:

        def make(name: str, count: int, shape: Shape | None = None) -> Lab:
            # Test runs of one machine do not meet.
            lab = Lab(f"{name[:12]}{os.getpid()}")
            stack.callback(lab.destroy)
            lab.up(count, shape)
            return lab

        yield make
