"""Clocks, randomness, files, sockets and threads are used in listed modules only, so that a simulation controls them.

import-linter cannot see calls and does not read Cython.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

BROKER = Path(__file__).resolve().parents[2] / "broker_cy"
# Packages of the broker. The consoles (admin, console, commands) are other programs.
PACKAGES = (
    "core",
    "metrics",
    "config",
    "schemas",
    "wire",
    "storage",
    "replica",
    "quorum",
    "controller",
    "metadata",
    "coordinator",
    "security",
    "quotas",
    "share",
    "client",
    "control",
    "network",
    "events",
    "partitions",
    "access",
    "coordinator_services",
    "replication",
    "record_schemas",
    "broker",
    "connections",
    "handlers",
    "telemetry",
    "storage_tool",
    "server",
    "shards",
)
# Packages that may use no seam.
PURE = ("replica", "quorum", "controller", "coordinator", "metadata", "security", "quotas", "share", "wire")
# Modules that may use no seam, of packages whose other modules may.
PURE_MODULES = (
    "client.group_member",
    "client.consumer_member",
    "client.consumer_protocol",
    "client.transaction",
    "client.transaction_errors",
)

CLOCK, RANDOM, DISK, NETWORK, THREADS, PROCESS = "clock", "random", "disk", "network", "threads", "process"
# The seam that each module belongs to; OF_NAME has exceptions for names of `os` and `uuid`.
OF_MODULE = {
    "time": CLOCK,
    "random": RANDOM,
    "secrets": RANDOM,
    "uuid": RANDOM,
    "socket": NETWORK,
    "ssl": NETWORK,
    "select": NETWORK,
    "selectors": NETWORK,
    "threading": THREADS,
    "multiprocessing": THREADS,
    "subprocess": PROCESS,
    "resource": PROCESS,
    "signal": PROCESS,
    "os": DISK,
    "shutil": DISK,
    "fcntl": DISK,
    "tempfile": DISK,
    "glob": DISK,
}
OF_NAME = {
    "os.urandom": RANDOM,
    "os.getrandom": RANDOM,
    "os.getpid": PROCESS,
    "os.environ": PROCESS,
    "os.getenv": PROCESS,
    "os.sysconf": PROCESS,
    "os._exit": PROCESS,
    "os.sched_getaffinity": PROCESS,
    "os.kill": PROCESS,
    "datetime.now": CLOCK,
    "datetime.utcnow": CLOCK,
    "date.today": CLOCK,
    "futures.ThreadPoolExecutor": THREADS,
    "asyncio.open_connection": NETWORK,
    "asyncio.start_server": NETWORK,
}
# They compute from their arguments alone (or, abspath, from the working directory, which does not change).
HARMLESS = {
    "ssl.SSLContext",
    "os.strerror",
    "os.fspath",
    "os.fsencode",
    "os.PathLike",
    "os.path",
    "os.stat_result",
    "time.strftime",
    "time.gmtime",
    "uuid.UUID",
    "uuid.uuid5",
    "uuid.SafeUUID",
}
PURE_PATHS = {"join", "dirname", "basename", "split", "splitext", "abspath", "normpath"}
HEADERS = {
    "time.h": CLOCK,
    "sys/socket.h": NETWORK,
    "sys/sendfile.h": NETWORK,
    "unistd.h": DISK,
    "sys/uio.h": DISK,
    "fcntl.h": DISK,
    "sys/stat.h": DISK,
    "sys/mman.h": DISK,
    "pthread.h": THREADS,
    "sys/random.h": RANDOM,
}

# The seams besides the disk: module -> the seams that it may use, and the reason.
SEAMS = {
    "core.clock": ({CLOCK}, "the clock"),
    "core.randomness": ({RANDOM}, "the source of draws"),
    "core.openssl": ({NETWORK, DISK}, "TLS over a socket; reads segments, as sendfile does; draws keys"),
    "client.tls": ({NETWORK, DISK}, "contexts of Python's ssl, and the files of key stores; a key is in memory only"),
    "client.oauth": ({CLOCK, THREADS}, "when a token expires, by the clock of a client; nodes hand in theirs; a lock"),
    "client.kerberos": ({DISK, THREADS}, "Kerberos of the machine; imported only if something logs in with GSSAPI"),
    "client.clusters": ({PROCESS, DISK}, "the file of clusters and variables of the environment, for programs only"),
    "client.security": ({PROCESS, DISK}, "names of files and variables of the environment, for clients only"),
    "core.fetch": ({NETWORK}, "what an OAuth provider serves; a worker calls it, only if it is configured"),
    "client.payload.keys": ({RANDOM}, "keys of generated records, drawn from a seed"),
    "client.payload.values": ({RANDOM}, "values of generated records, drawn from a seed"),
    "client.outgoing": ({NETWORK}, "connections of this machine"),
    "client.http_exchange": ({NETWORK}, "requests of tools to registries and metrics listeners; no node makes any"),
    "network.seams": ({THREADS}, "makes the worker threads"),
    "network.sockets": ({NETWORK}, "the network of the machine"),
    "network.transport": ({NETWORK, DISK}, "SocketTransport; it includes unistd.h to close the socket"),
    "telemetry.metrics_access": ({NETWORK}, "the context of the next one's TLS; only if configured"),
    "network.node_tls": ({NETWORK}, "contexts of Python's ssl, and a handshake of the node with itself"),
    "network.tls_transport": ({NETWORK, DISK}, "a socket with TLS; it includes unistd.h to close it"),
    "telemetry.metrics_http": ({NETWORK}, "serves HTTP on asyncio's streams; off unless it is configured"),
    "server.service_manager": ({NETWORK, PROCESS}, "talks to systemd; made by main, not a part of the broker"),
    "server.ready_line": ({CLOCK, PROCESS, DISK}, "printed by main"),
    "shards.children": ({DISK, PROCESS}, "starts and watches the processes of shards; they are no part of a broker"),
    "shards.companions": ({PROCESS}, "the programs of --with"),
    "shards.link": ({DISK, NETWORK, PROCESS}, "the connection of this process to its parent; made by main"),
    "shards.node_directory": ({DISK, PROCESS}, "the lock of the parent, and which processes its shards are"),
    "shards.parent": ({CLOCK, DISK, PROCESS}, "the parent process"),
    "shards.peers": ({DISK, NETWORK}, "the parent's connections to its shards"),
    "shards.start": ({PROCESS}, "the parent process"),
    "storage.shard_directories": ({DISK}, "looks into the directory of a node before anything is started"),
    "connections.connection_limits": ({PROCESS}, "the limit of descriptors bounds the connections"),
    "metrics.process": ({CLOCK, DISK, PROCESS}, "what /proc says about the process; nothing depends on it"),
    "core.config_def.definitions": ({DISK}, "reads the tables of the package"),
    "core.config_def.providers": ({DISK, PROCESS}, "files and variables that settings name, read when these are set"),
    "core.properties": ({DISK}, "reads server.properties, before there is a broker"),
    "schemas.tables": ({DISK}, "reads the tables of the package"),
    "storage.cleaner.throttle": ({THREADS}, "a lock of state that workers share"),
    "storage.log_opener": ({THREADS}, "a lock of state that workers share"),
    "storage.log_manager": ({DISK, PROCESS}, "the limit of descriptors bounds the open segments"),
    "storage.offset_checkpoints": ({DISK, THREADS}, "a lock of state that workers share"),
    "storage.syncs": ({DISK, THREADS}, "a lock of state that workers share"),
    "storage.data_directory": ({DISK, PROCESS}, "the lock of a data directory names its process"),
    "storage.page_cache": ({DISK, NETWORK}, "sendfile into a pipe reads a file into memory"),
}
# The disk: these modules and no others touch files of the data directories.
DISK_MODULES = {
    "control.quorum.metadata_log",
    *(
        f"storage.{name}"
        for name in (
            "atomic",
            "batch_reader",
            "cleaner.files",
            "cleaner.job",
            "cleaner.source",
            "cleaner.swap",
            "damage",
            "directory_failures",
            "disk",
            "duplicates",
            "flush_job",
            "lookups",
            "lost_files",
            "flusher",
            "index_file",
            "log",
            "log_creation",
            "log_cutting",
            "log_deletion",
            "log_files",
            "log_flush",
            "log_loader",
            "metadata_check",
            "moves.future_replica",
            "moves.log_moves",
            "moves.replica_moves",
            "moves.step_buffer",
            "noted_state",
            "offline_logs",
            "open_directories",
            "plain_partitions",
            "recovery",
            "removal",
            "segment",
            "snapshots",
            "txn_index",
            "written_points",
        )
    ),
}
ALLOWED = {name: touched for name, (touched, _) in SEAMS.items()} | {name: {DISK} for name in DISK_MODULES}


def of_use(name: str) -> str | None:
    """Return what the use of `module.attribute` touches; None if that is nothing of the machine."""
    if name in HARMLESS:
        return None
    if name.startswith("os.path."):
        return None if name.split(".")[2] in PURE_PATHS else DISK
    if re.fullmatch(r"os\.[A-Z_]+", name):
        return None  # a constant
    if name in OF_NAME:
        return OF_NAME[name]
    return OF_MODULE.get(name.partition(".")[0])


def joined(module: str, name: str) -> str:
    """Return how a name imported from a module is listed."""
    return f"{module.removeprefix('concurrent.')}.{name}"


def python_uses(text: str) -> Iterator[tuple[str, str]]:
    """Return (seam, name) for each use in a Python source."""
    tree = ast.parse(text)
    imported = {
        (each.asname or each.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            names = [f"{node.value.id}.{node.attr}"]
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id in imported
        ):
            names = [f"{node.value.value.id}.{node.value.attr}.{node.attr}", f"{node.value.attr}.{node.attr}"]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            base = node.module
            names = [joined(base, each.name) for each in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield DISK, "open"
        # Methods of pathlib; other classes have methods with the names of its other methods.
        if isinstance(node, ast.Attribute) and node.attr in ("read_text", "write_text"):
            yield DISK, node.attr
        # Methods of event loops.
        if isinstance(node, ast.Attribute) and node.attr in ("create_connection", "create_server"):
            yield NETWORK, node.attr
        for name in names:
            if (touched := of_use(name)) is not None:
                yield touched, name


_STRING = re.compile(r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_HEADER = re.compile(r'(?:extern from|#include)\s+"?<?([\w/]+\.h)')
_DOTTED = re.compile(r"(?<![\w.])([a-z]+(?:\.\w+)+)")
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)


def cython_uses(text: str) -> Iterator[tuple[str, str]]:
    """As `python_uses`, for a Cython source: names in its text, modules that it cimports, headers that it includes."""
    for header in _HEADER.findall(text):
        if header in HEADERS:
            yield HEADERS[header], header
    code = re.sub(r"#[^\n]*", "", _STRING.sub('""', text))
    for match in _FROM.finditer(code):
        base = match[1]
        if base == "posix" or base.startswith("posix."):
            yield CLOCK if base == "posix.time" else DISK, base
        for name in match[2].strip("()").split(","):
            if name.strip() and (touched := of_use(joined(base, name.split()[0]))) is not None:
                yield touched, joined(base, name.split()[0])
    imported = set(re.findall(r"\w+", " ".join(_IMPORT.findall(code))))
    for name in _DOTTED.findall(_FROM.sub("", code)):
        if name.partition(".")[0] in imported and (touched := of_use(name)) is not None:
            yield touched, name
    if re.search(r"(?:with|=|return) +open\(", code):
        yield DISK, "open"
    for name in re.findall(r"\.(create_connection|create_server)\b", code):
        yield NETWORK, name


def uses(path: Path) -> set[tuple[str, str]]:
    text = path.read_text()
    return set(python_uses(text) if path.suffix == ".py" else cython_uses(text))


def sources() -> list[Path]:
    return sorted(
        path for package in PACKAGES for kind in ("*.py", "*.pyx", "*.pxd") for path in (BROKER / package).rglob(kind)
    )


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(BROKER).with_suffix("").parts)


def test_the_machine_is_used_in_the_seams_only() -> None:
    """If this fails, a part of the broker reads the clock, draws, or touches files, sockets or threads by itself: a
    simulation that contains it cannot be repeated, and its faults do not reach that part.
    """
    assert len(sources()) > 200
    found: dict[str, set[str]] = {}
    wrong = []
    for path in sources():
        for touched, name in uses(path):
            found.setdefault(name_of(path), set()).add(touched)
            if touched not in ALLOWED.get(name_of(path), set()):
                wrong.append(f"{path.relative_to(BROKER)}: {name} ({touched})")
    assert sorted(wrong) == []
    # The lists contain no entry that has become unused.
    assert {name: touched - found.get(name, set()) for name, touched in ALLOWED.items()} == {
        name: set[str]() for name in ALLOWED
    }


def test_state_machines_use_nothing_of_the_machine() -> None:
    """If this fails, the list of seams contains a state machine or the wire format."""
    assert [name for name in ALLOWED if name.partition(".")[0] in PURE or name in PURE_MODULES] == []
    assert set(PURE_MODULES) <= {name_of(path) for path in sources()}


@pytest.mark.parametrize(
    ("line", "touched"),
    [
        ("import time\ntime.monotonic()", {CLOCK}),
        ("from time import monotonic", {CLOCK}),
        ("import random\nx = random.random()", {RANDOM}),
        ("import uuid\nuuid.uuid4()", {RANDOM}),
        ("from uuid import UUID\nUUID(int=1)", set()),
        ("import os\nos.urandom(8)", {RANDOM}),
        ("import os\nos.fsync(3)\nos.strerror(1)", {DISK}),
        ("import os\nos.path.join('a', 'b')", set()),
        ("import os\nos.path.exists('a')", {DISK}),
        ("import socket\nsocket.socket()", {NETWORK}),
        ("import asyncio\nasyncio.open_connection()", {NETWORK}),
        ("async def f(loop):\n    await loop.create_connection(None, 'a', 1)", {NETWORK}),
        ("import asyncio\nasyncio.sleep(1)", set()),
        ("import threading\nthreading.Thread()", {THREADS}),
        ("from concurrent.futures import ThreadPoolExecutor", {THREADS}),
        ("with open('a') as file:\n    pass", {DISK}),
        ('"""time.monotonic() and os.open()"""', set()),
    ],
)
def test_a_use_is_found(line: str, touched: set[str]) -> None:
    """If this fails, the check above passes because it finds nothing."""
    assert {each for each, _ in python_uses(line)} == touched
    assert {each for each, _ in cython_uses(line)} == touched


@pytest.mark.parametrize(
    ("text", "touched"),
    [
        ("from posix.time cimport clock_gettime", {CLOCK}),
        ("from posix.unistd cimport read", {DISK}),
        ('cdef extern from "sys/socket.h" nogil:\n    int recv(int fd)', {NETWORK}),
        ('cdef extern from *:\n    """\n    #include <time.h>\n    """', {CLOCK}),
        ("from libc.stdint cimport int64_t  # os.open", set()),
    ],
)
def test_a_use_in_c_is_found(text: str, touched: set[str]) -> None:
    """If this fails, system calls of the data path are not seen."""
    assert {each for each, _ in cython_uses(text)} == touched
