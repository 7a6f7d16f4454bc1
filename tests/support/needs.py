"""Requirements of tests beyond the Python environment: the one place that declares them.

Each name is a mark: a test with it is skipped with a reason if this machine lacks the requirement. Fixtures call
`require(needs.kafka)`. Marks that try something on the machine, such as a mount, are functions, so that only tests that
use them pay for it. tools/system_packages.sh installs the programs.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from bench.launch import chromium as browsers
from bench.launch import go_programs, java_programs

MEMORY = Path("/dev/shm")
"""A directory in memory: syncs of files in it cost nothing."""


def _mark(reason: str | None) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bool(reason), reason=reason or "")


def _program(name: str, package: str) -> str | None:
    return None if shutil.which(name) else f"{name} is not installed (Debian: apt-get install {package})"


java = _mark(java_programs.missing())
"""A JVM, a Java compiler and Apache Kafka's jars: programs in Java."""
kafka = java
"""A running Kafka, or its command-line tools, whose JVM runs a program of the tests (kafka_tools.py)."""
go = _mark(go_programs.missing())
node = _mark(_program("node", "nodejs") or _program("npm", "npm"))
kcat = _mark(_program("kcat", "kcat"))
tmux = _mark(_program("tmux", "tmux"))
valgrind = _mark(_program("valgrind", "valgrind"))
chromium = _mark(
    None
    if any(map(shutil.which, browsers.PROGRAMS))
    else f"no Chromium is installed ({', '.join(browsers.PROGRAMS)}; Debian: apt-get install chromium)"
)
root = _mark(None if os.geteuid() == 0 else "needs root")
no_root = _mark("the superuser may read and write every file" if os.geteuid() == 0 else None)
memory = _mark(None if MEMORY.is_dir() else f"{MEMORY} does not exist: every sync would reach a disk")


@cache
def small_disk() -> pytest.MarkDecorator:
    """A mount namespace with a small file system of its own."""
    from tests.support.small_disk import why_not

    return _mark(why_not())


@cache
def own_network() -> pytest.MarkDecorator:
    """A network namespace with a loopback interface of its own."""
    from tests.support.network import why_not

    return _mark(why_not())


@cache
def lab_network() -> pytest.MarkDecorator:
    """Hosts of tests/lab: namespaces, a bridge with rules, slow links."""
    from tests.lab.hosts import why_not

    return _mark(why_not())


@cache
def lab_hosts() -> pytest.MarkDecorator:
    """Hosts of tests/deploy: containers with systemd."""
    from tests.deploy.base import missing

    return _mark(missing())


@cache
def kerberos() -> pytest.MarkDecorator:
    """A key distribution center, and python-gssapi."""
    from tests.support.kerberos import missing

    return _mark(missing())


def require(mark: pytest.MarkDecorator) -> None:
    """Skip the running test, with the reason, unless the machine has what `mark` stands for."""
    if mark.args[0]:
        pytest.skip(str(mark.kwargs["reason"]))
