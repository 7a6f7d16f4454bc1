"""The limit of open files, and the cost of idle connections."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from loadgen.net.files import OTHERS, FilesError, allow_files
from tests.support import needs
from tests.support.broker import Target

# Prints the growth of resident memory per connection, in bytes.
IDLE = """
import sys, resource
from loadgen.net.connection import connect
from loadgen.net.files import allow_files
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
port, count = int(sys.argv[1]), int(sys.argv[2])
allow_files(count)
held = [connect(("127.0.0.1", port), "idle", 30.0) for _ in range(100)]
before = resident()
held += [connect(("127.0.0.1", port), "idle", 30.0) for _ in range(count)]
assert all(each.closed is None for each in held)
print((resident() - before) // count)
"""
# 10,000 connections in 250 MB, including 100 MB for the process itself.
BYTES_MAX = 15_000


@needs.file_limit
def test_a_limit_that_does_not_suffice_is_named() -> None:
    """If this fails, a connection storm ends with thousands of EMFILE errors instead of one that gives the remedy."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(FilesError, match=rf"{hard} connections need {hard + OTHERS} open files.* have {hard}: raise"):
        allow_files(hard)
    allow_files(10)


def test_an_idle_connection_needs_little_memory(own_broker: Target) -> None:
    """If this fails, ten thousand idle connections do not fit in 250 MB."""
    command = [sys.executable, "-c", IDLE, str(own_broker.port), "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) <= BYTES_MAX
