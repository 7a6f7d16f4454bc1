"""The answers of all programs: one table of exit codes, one form of errors, one form of versions.

    0    success
    1    refused, or failed (partly)
    2    an option, a value or a file is wrong, or a library is not installed; nothing was done
    3    broker unreachable, or timed out
    4    not confirmed; nothing was changed
    130  interrupted

Codes from 10 are verdicts of the load generator about a run that was performed (loadgen.command).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from broker_cy import __version__
from broker_cy.client.errors import ClientError, Failure
from broker_cy.reporting.foreign_text import escaped

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHED: Final = 3
EXIT_NOT_CONFIRMED: Final = 4
EXIT_INTERRUPTED: Final = 130

JSON_OPTION: Final = "--json"


def exit_code_of(error: ClientError) -> int:
    """Return the exit code of a program that ended with this failure."""
    if error.failure is Failure.INVALID:
        return EXIT_USAGE
    return EXIT_UNREACHED if error.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT) else EXIT_FAILED


def unreachable(reason: str, broker: str, api: str = "connect") -> ClientError:
    """The failure of all programs for a broker that cannot be reached."""
    return ClientError(Failure.UNREACHABLE, reason, broker=broker, api=api)


def error_fields(error: ClientError) -> dict[str, Any]:
    """The fields of an error in JSON."""
    fields = {"failure": error.failure.value, "api": error.api, "broker": error.broker, "what": error.what}
    return {**fields, "code": None if error.code is None else error.code.name, "reason": error.reason}


def print_error(program: str, error: ClientError, *, as_json: bool) -> None:
    """Print an error on the standard error: one line of JSON, or one line of text."""
    if as_json:
        text = json.dumps({"error": error_fields(error)}, ensure_ascii=False)
    else:
        text = f"{program}: {escaped(str(error))}"
    print(text, file=sys.stderr)


def end(program: str, error: ClientError, *, as_json: bool) -> int:
    """Print an error, and return the exit code."""
    print_error(program, error, as_json=as_json)
    return exit_code_of(error)


def wants_json(argv: Iterable[str]) -> bool:
    """Return whether errors are to be JSON, also before the options are parsed."""
    for each in argv:
        if each == "--":
            return False
        if each == JSON_OPTION:
            return True
    return False


def usage_error(program: str, reason: str, argv: Sequence[str], usage: str = "") -> int:
    """Report a wrong option, and return the exit code. `usage` precedes the text for people."""
    as_json = wants_json(argv)
    if usage and not as_json:
        print(usage.rstrip("\n"), file=sys.stderr)
    return end(program, ClientError(Failure.INVALID, reason), as_json=as_json)


def version_text(program: str) -> str:
    """For --version."""
    return f"{program} {__version__}"
