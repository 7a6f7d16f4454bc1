"""Requirements of tests beyond the Python environment: the one place that declares them.

Each name is a mark: a test with it is skipped with a reason if this machine lacks the requirement. Fixtures call
`require(needs.kafka)`. Marks that try an operation on the machine, such as a mount, are functions, so that only tests
that use them pay for it. tools/system_packages.sh installs the programs.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.launch import chromium as browsers
from bench.launch import go_programs, kafka_dist

ROOT = Path(__file__).resolve().parents[2]
MEMORY = Path("/dev/shm")
"""A directory in memory: syncs of files in it cost nothing."""


def _mark(reason: str | None) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bool(reason), reason=reason or "")


def _program(name: str, package: str) -> str | None:
    return None if shutil.which(name) else f"{name} is not installed (Debian: apt-get install {package})"


def _has_ipv6() -> bool:
    """Whether the loopback interface has the address ::1."""
    addresses = Path("/proc/net/if_inet6")
    return addresses.exists() and f"{1:032x} " in addresses.read_text()


java = _mark(kafka_dist.missing_for_programs())
"""A JVM, a Java compiler and Apache Kafka's jars: programs in Java."""
kafka = java
"""A running Kafka, or its command-line tools, whose JVM runs a program of the tests (kafka_tools.py)."""
go = _mark(go_programs.missing())
node = _mark(_program("node", "nodejs") or _program("npm", "npm"))
kcat = _mark(_program("kcat", "kcat"))
tmux = _mark(_program("tmux", "tmux"))
valgrind = _mark(_program("valgrind", "valgrind"))
jq = _mark(_program("jq", "jq"))
make = _mark(_program("make", "make"))
prlimit = _mark(_program("prlimit", "util-linux"))
compiler = _mark(_program("cc", "gcc") and _program("gcc", "gcc"))
librdkafka_suite = _mark(_program("npm", "npm") or _program("make", "make") or _program("g++", "g++"))
"""The programs that compile librdkafka's own tests."""
ansible = _mark(
    None
    if find_spec("ansible") and Path(sys.executable).with_name("ansible-playbook").exists()
    else "ansible-core is not installed (make .venv/.ansible)"
)
tls = _mark(None if find_spec("broker_cy.core.openssl") else "this build has no TLS")
ipv6 = _mark(None if _has_ipv6() else "this machine has no address ::1")
kafka_hosts = _mark(kafka_dist.missing())
"""A JVM and Apache Kafka, without a compiler: lab hosts that run it."""
chromium = _mark(browsers.missing())
root = _mark(None if os.geteuid() == 0 else "needs root")
no_root = _mark("the superuser may read and write every file" if os.geteuid() == 0 else None)
unprivileged = _mark(
    "root needs setpriv to give up its privileges" if os.geteuid() == 0 and _program("setpriv", "util-linux") else None
)
"""A process without root privileges."""
file_limit = _mark(
    "this process may have any number of open files"
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] == resource.RLIM_INFINITY
    else None
)
git_checkout = _mark(
    None if (ROOT / ".git").exists() else "which files belong to the tree is known in a git checkout only"
)
memory = _mark(None if MEMORY.is_dir() else f"{MEMORY} does not exist: every sync would reach a disk")


@cache
def small_disk() -> pytest.MarkDecorator:
    """A mount namespace with its own small file system."""
    from tests.support.small_disk import why_not

    return _mark(why_not())


@cache
def dying_disk() -> pytest.MarkDecorator:
    """A file system on a loop device that the kernel shuts down."""
    from tests.support.dead_disk import why_not

    return _mark(why_not())


@cache
def own_network() -> pytest.MarkDecorator:
    """A network namespace with its own loopback interface."""
    from tests.support.network import why_not

    return _mark(why_not())


@cache
def cut_network() -> pytest.MarkDecorator:
    """Network namespaces whose links can be cut in one direction (bench/launch/networks.py)."""
    from bench.launch.networks import missing

    return _mark(missing())


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
def lab_script() -> pytest.MarkDecorator:
    """Lab hosts that a script makes (tests/support/lab.py)."""
    if not os.environ.get("BROKER_CY_LAB"):
        return _mark("BROKER_CY_LAB does not name a script that makes lab hosts (tests/support/lab.py)")
    return root


@cache
def kerberos() -> pytest.MarkDecorator:
    """A key distribution center, and python-gssapi."""
    from tests.support.kerberos import missing

    return _mark(missing())


@cache
def spark() -> pytest.MarkDecorator:
    """A JVM that Spark supports, and the jars of Spark's Kafka source, which the first call downloads."""
    from spark_analytics.errors import SetUpError
    from spark_analytics.jars import check_java, fetch

    try:
        check_java()
        fetch()
    except SetUpError as error:
        return _mark(str(error))
    return _mark(None)


@cache
def sslyze() -> pytest.MarkDecorator:
    """The scanner sslyze in a separate environment, which the first call installs."""
    from tests.support.environments import EnvironmentMissingError, sslyze_python

    try:
        sslyze_python()
    except EnvironmentMissingError as error:
        return _mark(str(error))
    return _mark(None)


@cache
def python(version: str) -> pytest.MarkDecorator:
    """A Python interpreter of a version such as 3.13."""
    from tests.support.environments import EnvironmentMissingError, find_python

    try:
        find_python(version)
    except EnvironmentMissingError as error:
        return _mark(str(error))
    return _mark(None)


def require(mark: pytest.MarkDecorator) -> None:
    """Skip the running test, or the module that is imported, with the reason, unless the machine has what `mark` stands
    for.
    """
    if mark.args[0]:
        pytest.skip(str(mark.kwargs["reason"]), allow_module_level=True)
