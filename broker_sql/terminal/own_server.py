"""A server of SQL that runs as long as the terminal, for a terminal with --bootstrap.

It is a process of its own, so that rows of queries and keys of the editor do not wait for each other. It has the
service id of its settings: statements of earlier sessions are in its command topic, and their queries run again."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.launch.processes import end_within, start_child

START_S: Final = 60.0
"""For the command topic to be read."""
END_S: Final = 20.0
_SHOWN_BYTES: Final = 2_000
_READY_BYTES_MAX: Final = 1 << 16


@contextmanager
def own_server(options: Sequence[str]) -> Iterator[str]:
    """Start `broker-sql server` with these options at a free port; yields its URL. Raises ClientError."""
    command = [sys.executable, "-m", "broker_sql", "server", "--listen", "127.0.0.1:0", "--json", *options]
    with tempfile.TemporaryFile() as errors:
        process = start_child(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            yield _ready(process, errors)
        finally:
            process.terminate()
            end_within(process, END_S)
            if process.stdout is not None:
                process.stdout.close()


def _ready(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Return the URL that the server prints when it serves."""
    stdout = process.stdout
    assert stdout is not None
    deadline = time.monotonic() + START_S
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n") and len(line) < _READY_BYTES_MAX:
            if not selector.select(max(deadline - time.monotonic(), 0)):
                reason = f"the server of this terminal does not serve after {START_S:.0f} s"
                raise ClientError(Failure.TIMED_OUT, reason + _tail(errors))
            byte = stdout.read1(1)  # type: ignore[attr-defined]  # a BufferedReader
            if not byte:
                raise _failed(process.wait(), errors)
            line += byte
    try:
        url: str = json.loads(line)["urls"][0]
    except (ValueError, KeyError, IndexError, TypeError):
        raise ClientError(Failure.MALFORMED, f"the server of this terminal printed {line[:80]!r}") from None
    return url


def _failed(code: int, errors: IO[bytes]) -> ClientError:
    """Return the failure that the server printed, as JSON, or its last output."""
    text = _tail(errors).strip(": \n")
    try:
        fields = json.loads(text.splitlines()[-1])["error"]
        failure = Failure(fields["failure"])
        return ClientError(
            failure,
            fields["reason"],
            broker=fields.get("broker", ""),
            api=fields.get("api", ""),
            what=fields.get("what", ""),
        )
    except (ValueError, KeyError, IndexError, TypeError):
        return ClientError(Failure.REFUSED, f"the server of this terminal ended with code {code}: {text}")


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0, 2)
    errors.seek(max(errors.tell() - _SHOWN_BYTES, 0))
    text = errors.read().decode(errors="replace").strip()
    return f": {text}" if text else ""
