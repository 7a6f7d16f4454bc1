"""A user's application: a Python file that defines `builder` (or `topology`) and `config`.

config = {"application.id": "orders-per-minute", "bootstrap.servers": "localhost:9092"}
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.topology import Topology
from broker_streams.plan.topology import Topology as Plan
from broker_streams.plan.topology import TopologyError
from broker_streams.settings import resolved


class ApplicationError(ValueError):
    """A file that is no application, or whose settings or topology are wrong."""


class Application(NamedTuple):
    path: Path
    topology: Plan
    config: dict[str, Any]


def load(path: Path, changed: Mapping[str, str] | None = None) -> Application:
    """Run the file, and build its topology with its settings and `changed`. Raises ApplicationError, also for errors
    of the file's own code.
    """
    if not path.is_file():
        raise ApplicationError(f"{path} is no file")
    # As for a program: the file may import modules beside it.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        found = runpy.run_path(str(path), run_name="__streams__")
    except ModuleNotFoundError as error:
        # Otherwise it would be taken for a library of this program that is missing.
        raise ApplicationError(f"{path} needs a module that is not installed: {error.name}") from error
    except Exception as error:
        raise ApplicationError(_failure(path, error)) from error
    config = found.get("config", {})
    if not isinstance(config, Mapping):
        raise ApplicationError(f"{path}: config is a {type(config).__name__}; a mapping of settings is expected")
    settings = resolved({**config, **(changed or {})})
    made = found.get("topology", found.get("builder"))
    try:
        if isinstance(made, StreamsBuilder):
            made = made.build(settings)
        if isinstance(made, Topology):
            made = made.plan
    except TopologyError as error:
        raise ApplicationError(f"{path}: {error}") from error
    if not isinstance(made, Plan):
        raise ApplicationError(f"{path} defines neither builder (a StreamsBuilder) nor topology (a Topology)")
    return Application(path, made, settings)


def _failure(path: Path, error: Exception) -> str:
    """The text for an error of the file's code, with the line of the file, and that of a module where it failed."""
    kind = "" if isinstance(error, TopologyError) else f"{type(error).__name__}: "
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {kind}{error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == str(path)]
    place = f"{path}, line {lines[-1]}" if lines else str(path)
    package = str(Path(__file__).parent)
    last = frames[-1]
    if last.filename != str(path) and not last.filename.startswith(package):
        kind = f"{last.filename}, line {last.lineno}: {kind}"
    return f"{place}: {kind}{error}"
