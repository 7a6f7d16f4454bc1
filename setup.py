"""Compile every .pyx under ROOMS into its own extension. Metadata is in setup.cfg.

TLS is linked with the OpenSSL of the system (>= 3.0). If its headers are missing, the TLS modules are left out,
and a broker with a TLS listener reports that.

Environment: BROKER_CY_OPENSSL is system, vendored (built by tools/openssl.sh below build/openssl) or none;
BROKER_CY_ROOMS is a comma-separated list of rooms: a module of another room is only compiled if it was compiled before
(`make run`); BROKER_CY_SANITIZE=1 builds with AddressSanitizer and UBSan (see `make asan`); BROKER_CY_NO_EXTENSIONS=1
leaves the extensions out (the editable install of `make build`, which compiles them in place by itself).
"""

import gc
import os
import shlex
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

# C sources that belong to one extension module, by module name.
C_SOURCES: dict[str, list[str]] = {
    "broker_cy.core.crc32c": ["broker_cy/core/includes/crc32c_impl.c"],
}
# The only module that calls OpenSSL, so that there is one copy of a static library; and those that cannot be imported
# without it.
OPENSSL = "broker_cy.core.openssl"
WITH_TLS = {OPENSSL, "broker_cy.network.tls_transport"}
OPENSSL_ROOM = Path("build/openssl")
# Code that Cython would otherwise repeat in each module (methods in Python's form, checks of arguments, kinds of
# types): a quarter of the compile time and of the machine code. Every module imports it first.
SHARED = "broker_cy.core.cython_shared"
SHARED_SOURCE = Path(*SHARED.split(".")).with_suffix(".c")
# Modules that run per record or per request. All others are compiled with -O1, which takes half the time.
HOT = {
    "broker_cy.core.crc32c",
    "broker_cy.core.openssl",
    "broker_cy.metrics.requests",
    "broker_cy.replica.flush_group",
    "broker_cy.replica.follower_log",
    "broker_cy.replica.partition",
    "broker_cy.replica.produced",
    "broker_cy.replica.replica",
    "broker_cy.connections.answers",
    "broker_cy.connections.connection",
    "broker_cy.connections.fetch_answer",
    "broker_cy.connections.fetch_read",
    "broker_cy.connections.fetch_reply",
    "broker_cy.connections.gate",
    "broker_cy.connections.handler_calls",
    "broker_cy.connections.held_produce",
    "broker_cy.connections.kept_answer",
    "broker_cy.coordinator.modern.steady_member",
    "broker_cy.coordinator.modern.topic_values",
    "broker_cy.handlers.fetch",
    "broker_cy.handlers.produce",
    "broker_cy.handlers.shared.repeated_heartbeat",
    "broker_cy.replication.fetch_session_handler",
    "broker_cy.connections.outbox",
    "broker_cy.connections.produce_append",
    "broker_cy.connections.share_fetch_answer",
    "broker_cy.connections.receiver",
    "broker_cy.network.tls_transport",
    "broker_cy.network.transport",
    "broker_cy.share.acknowledging",
    "broker_cy.share.acquired_slices",
    "broker_cy.share.acquiring",
    "broker_cy.share.runs",
    "broker_cy.share.share_partition",
    "broker_cy.storage.cleaner.map_walk",
    "broker_cy.storage.cleaner.output",
    "broker_cy.storage.cleaner.clean_walk",
    "broker_cy.storage.cleaner.source",
    "broker_cy.storage.log",
    "broker_cy.storage.cleaner.offset_map",
    "broker_cy.wire.batch",
    "broker_cy.wire.batch_check",
    "broker_cy.wire.columns",
    "broker_cy.wire.digest",
    "broker_cy.wire.decoder",
    "broker_cy.wire.encoder",
    "broker_cy.wire.record",
    "broker_cy.wire.schema_uses",
    "broker_cy.wire.walk",
    "broker_cy.wire.wire_uuid",
    "broker_mirror.copy.restamp",
    "broker_streams.hosts.results",
    "broker_streams.kernel.formats",
    "broker_streams.kernel.forward",
    "broker_streams.kernel.processors.stateless",
    "broker_streams.kernel.processors.key_fold",
    "broker_streams.kernel.processors.window_fold",
    "broker_streams.kernel.record_queue",
    "broker_streams.kernel.stores.cache",
    "broker_streams.kernel.stores.grouping",
    "broker_streams.kernel.stores.keys",
    "broker_streams.kernel.stores.ordered",
    "broker_streams.kernel.stores.row_formats",
    "broker_streams.kernel.stores.key_rows",
    "broker_streams.kernel.stores.window_rows",
    "broker_streams.kernel.topic_sink",
    "broker_streams.record",
    "broker_streams.state.runs",
}

SANITIZE = os.environ.get("BROKER_CY_SANITIZE") == "1"
COMPILE_ARGS = ["-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unreachable-code"]
LINK_ARGS: list[str] = []
if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined", "-g"]
    COMPILE_ARGS += flags
    LINK_ARGS += flags
else:
    COMPILE_ARGS += ["-g0"]

ROOMS = ("broker_cy", "broker_mirror", "broker_streams", "bench")
# Had an extension in an earlier version.
FORMER_ROOMS = ("spark_analytics",)
WANTED_ROOMS = os.environ.get("BROKER_CY_ROOMS", ",".join(ROOMS)).split(",")
HEADERS_MISSING = (
    "there are no headers of OpenSSL 3.0 or later here; for listeners with TLS, install them (Debian: apt-get install "
    "libssl-dev) and build again"
)
JOBS = len(os.sched_getaffinity(0))


def openssl() -> dict[str, Any] | None:
    """Return the libraries for the extension that calls OpenSSL; None if no OpenSSL is available."""
    wanted = os.environ.get("BROKER_CY_OPENSSL", "system")
    if wanted not in ("system", "vendored", "none"):
        raise SystemExit(f"BROKER_CY_OPENSSL={wanted}: expected system, vendored or none")
    current = OPENSSL_ROOM / "current"
    found: dict[str, Any] | None = None
    choice = "none"
    if wanted == "vendored" and current.exists():
        choice = current.read_text().strip()
        place = OPENSSL_ROOM / choice
        found = {
            "include_dirs": [str(place / "include")],
            # In this order: the first uses the second.
            "extra_objects": [str(place / "lib" / "libssl.a"), str(place / "lib" / "libcrypto.a")],
            # Python's own ssl module may load another OpenSSL into this process.
            "extra_link_args": ["-Wl,--exclude-libs,ALL", "-pthread"],
        }
    elif wanted != "none" and system_openssl():
        choice = "system"
        found = {"libraries": ["ssl", "crypto"]}
    # The extension is built again when the choice changes.
    noted = Path("build/openssl.linked")
    if not noted.exists() or noted.read_text() != choice:
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(choice)
    if found is None:
        if wanted != "none":
            print(f"built without TLS: {HEADERS_MISSING}", file=sys.stderr)
        return None
    return {"depends": [str(noted)], **found}


def system_openssl() -> bool:
    """Whether the headers of an OpenSSL >= 3.0 are where the compiler looks."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    source = "#include <openssl/ssl.h>\nmajor=OPENSSL_VERSION_MAJOR\n"
    try:
        done = subprocess.run([*compiler, "-E", "-P", "-"], input=source, capture_output=True, text=True, check=False)
    except OSError:
        return False
    major = done.stdout.rpartition("major=")[2].strip()
    return done.returncode == 0 and major.isdecimal() and int(major) >= 3


def write_shared() -> bool:
    """Write the C file of SHARED if it is missing or comes from another Cython version; returns whether it was
    written.
    """
    cython = version("Cython")
    with suppress(FileNotFoundError), SHARED_SOURCE.open() as file:
        if f"Generated by Cython {cython} " in file.readline():
            return False
    command = [sys.executable, "-m", "cython", f"--generate-shared={SHARED_SOURCE}", f"--module-name={SHARED}"]
    subprocess.run(command, check=True)
    return True


def extensions() -> list[Extension]:
    """Return one extension per .pyx, translated to C if the C file is out of date, and that of SHARED."""
    from Cython.Build import cythonize

    found = []
    tls = openssl()
    for path in sorted(path for room in ROOMS for path in Path(room).rglob("*.pyx")):
        name = ".".join(path.with_suffix("").parts)
        sources = [str(path), *C_SOURCES.get(name, [])]
        if tls is None and name in WITH_TLS:
            remove_built(path)
            continue
        # A module that was compiled against other headers of the broker must not stay.
        if path.parts[0] not in WANTED_ROOMS and not [*path.parent.glob(f"{path.stem}.cpython-*.so")]:
            continue
        options = dict(tls or {}) if name == OPENSSL else {}
        options["extra_link_args"] = [*LINK_ARGS, *options.get("extra_link_args", ())]
        arguments = ["-O2" if name in HOT else "-O1", *COMPILE_ARGS]
        found.append(Extension(name, sources, extra_compile_args=arguments, **options))
    # Cython's objects live until a file is translated: garbage collection would take a quarter of the time.
    gc.set_threshold(500_000, 20, 100)
    made: list[Extension] = cythonize(
        found,
        nthreads=JOBS,
        # Files translated earlier match another SHARED, or contain all of it.
        force=write_shared(),
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "auto_pickle": False,
            "freethreading_compatible": False,
            # Comments that repeat the source make the C files a quarter larger, and are not read.
            "emit_code_comments": False,
        },
    )
    made.append(
        Extension(SHARED, [str(SHARED_SOURCE)], extra_compile_args=["-O2", *COMPILE_ARGS], extra_link_args=LINK_ARGS)
    )
    # The slowest files come first: otherwise one of them finishes alone.
    made.sort(key=lambda each: Path(each.sources[0]).stat().st_size * (2 if each.name in HOT else 1), reverse=True)
    return made


def remove_orphans() -> None:
    """Remove compiled modules whose .pyx no longer exists: a wheel would contain them, and imports would find them."""
    shared = SHARED_SOURCE.with_suffix(".pyx")
    for base in (Path(), *Path("build").glob("lib.*")):
        for path in [path for room in ROOMS + FORMER_ROOMS for path in (base / room).rglob("*.cpython-*.so")]:
            source = path.relative_to(base).with_name(f"{path.name.partition('.')[0]}.pyx")
            if source != shared and not source.exists():
                path.unlink()


def remove_built(path: Path) -> None:
    """Remove the compiled module of a .pyx that is not built this time: its library no longer exists."""
    for base in (Path(), *Path("build").glob("lib.*")):
        for built in (base / path).parent.glob(f"{path.stem}.cpython-*.so"):
            built.unlink()


if __name__ == "__main__":
    remove_orphans()
    setup(
        ext_modules=[] if os.environ.get("BROKER_CY_NO_EXTENSIONS") == "1" else extensions(),
        options={"build_ext": {"inplace": True, "parallel": JOBS}},
    )
