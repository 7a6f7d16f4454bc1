"""Runs a case: its statements, its records, and a comparison of what was written with what the case expects."""

from __future__ import annotations

import traceback
from importlib import import_module
from importlib.util import find_spec

from broker_sql.errors import ParseError, SqlError
from tests.broker_sql.query_tests.cases import Case
from tests.broker_sql.query_tests.outcome import Outcome


class Stopped(Exception):
    """A case ended at a stage, with the reason."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


def run(case: Case, *, only: str | None = None) -> Outcome:
    """Return the outcome of a case. `only` is the stage to end after: parse."""
    try:
        parse(case)
        if only != "parse":
            raise Stopped("plan", "there is no planner yet")
    except Stopped as stopped:
        return Outcome(case.file, case.name, stopped.stage, stopped.reason)
    return Outcome(case.file, case.name, "passed", "")


def parse(case: Case) -> None:
    """Parse all statements. Raises Stopped: an error although the case expects none."""
    if find_spec("broker_sql.dialect") is None:
        raise Stopped("parse", "there is no broker_sql.dialect")
    dialect = import_module("broker_sql.dialect")

    for text in case.statements:
        try:
            dialect.parse(text)
        except ParseError as error:
            if case.error is None:
                raise Stopped("parse", f"{error}\n{text}") from None
        except SqlError as error:
            if case.error is None:
                raise Stopped("parse", f"{type(error).__name__}: {error}\n{text}") from None
        except Exception as error:
            raise Stopped("parse", described(error)) from None


def described(error: Exception) -> str:
    """An error that is no SqlError: its type, text and the innermost place in the project."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "broker_" in each.filename]
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}{place}"
