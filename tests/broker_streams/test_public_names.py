"""The names that applications import from broker_streams."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import broker_streams


def test_each_public_name_is_there_for_programs_and_for_type_checkers() -> None:
    """If this fails, an import that a type checker accepts fails in the application, or the other way round."""
    tree = ast.parse(inspect.getsource(broker_streams))
    checked = {
        name.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("broker_streams.")
        for name in node.names
    }
    of_programs = {name: f"broker_streams.{module}" for name, module in broker_streams._MODULE_OF.items()}
    assert checked == of_programs
    for name in of_programs:
        assert getattr(broker_streams, name) is not None
        assert name in dir(broker_streams)
    with pytest.raises(AttributeError, match="has no attribute 'Missing'"):
        broker_streams.Missing  # noqa: B018


def test_an_import_loads_only_what_is_used() -> None:
    """If this fails, each program that uses one part of the library pays for the import of all of it."""
    program = (
        "import sys, broker_streams; broker_streams.Record;"
        "print(*sorted(each for each in sys.modules if 'streams' in each))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["broker_streams", "broker_streams.record", "broker_streams.records"]
