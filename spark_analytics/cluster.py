"""The requirements of a Spark cluster beyond those of one machine: workers that have our code, and masters that answer.

The jobs hand Python functions to the workers, which import them by name. The driver's own packages are shipped as an
archive that each executor unpacks in its working directory, so workers run the same version as the driver and need no
installation of broker-cy. They need the driver's minor version of Python, with pandas and pyarrow.
"""

from __future__ import annotations

import importlib.util
import re
import socket
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

from broker_cy.client.address import parse_address
from spark_analytics.errors import SetUpError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

# The packages that workers import, directly or indirectly.
PACKAGES = ("broker_cy", "spark_analytics")
# The modules whose import on a worker shows that the jobs can run there.
MODULES = ("numpy", "pandas", "pyarrow", "spark_analytics.jobs.registry")
# The archive's folder in an executor's working directory, which is where its Python processes start.
FOLDER = "broker-cy-packages"
_SOURCES = (".c", ".pyc", ".pyi", ".pxd", ".pyx")
_LOCAL = re.compile(r"local(\[.*\])?")
_MASTERS = re.compile(r"spark://(.+)")
_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
CONNECT_S = 5.0
# The time that a command waits for the first executor of the cluster, and the time after which it reports the wait.
WAIT_S, SILENT_S, LOOK_S = 600.0, 10.0, 0.1


def is_local(master: str) -> bool:
    """Whether a master is this process; `local-cluster` is not, because it starts others."""
    return _LOCAL.fullmatch(master) is not None


def prepare(conf: SparkConf) -> None:
    """Set the options that must be known before executors start. Raises SetUpError if no master of `spark://` can be
    reached.
    """
    master = conf.get("spark.master", "") or ""
    if (found := _MASTERS.fullmatch(master)) is not None:
        failures = [_failure(each) for each in found[1].split(",")]
        if all(failures):
            raise SetUpError(f"{master}: {'; '.join(each for each in failures if each)}")
    given = conf.get(_PYTHON_PATH, "")
    conf.set(_PYTHON_PATH, f"{FOLDER}:{given}" if given else FOLDER)


def _failure(address: str) -> str | None:
    """Return the reason why a master cannot be reached; None if it can."""
    try:
        place = parse_address(address, needs_port=True)
    except ValueError as error:
        return str(error)
    try:
        socket.create_connection(place, CONNECT_S).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return None


def ship(context: SparkContext, packages: Iterable[str] = PACKAGES) -> None:
    """Distribute packages to every executor of the session, before its first task."""
    archive = Path(str(context._temp_dir)) / f"{FOLDER}.zip"  # Spark removes this folder at the end
    with zipfile.ZipFile(archive, "w") as made:
        for package in packages:
            for path, name in _files(package):
                made.write(path, name)
    context.addArchive(f"{archive}#{FOLDER}")


def _files(package: str) -> Iterator[tuple[Path, str]]:
    """Yield the run-time files of a package with their names in the archive."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    for folder in map(Path, spec.submodule_search_locations or ()):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in _SOURCES and _is_loadable(path):
                yield path, str(Path(package) / path.relative_to(folder))


def _is_loadable(path: Path) -> bool:
    """Whether this Python would use the file: extension modules of other versions may be in the same directory."""
    return path.suffix != ".so" or path.name.endswith(tuple(EXTENSION_SUFFIXES))


def check_workers(
    context: SparkContext, show: Callable[[str], None], modules: tuple[str, ...] = MODULES, extra: str = "analytics"
) -> None:
    """Wait for the first executor, and let it import `modules`, whose requirements are those of `extra`. Raises
    SetUpError.
    """
    began_s = time.monotonic()
    is_shown = False
    executors = context._jsc.sc().getExecutorMemoryStatus  # the driver is one of them
    while executors().size() < 2:
        waited_s = time.monotonic() - began_s
        if waited_s > WAIT_S:
            raise SetUpError(f"{context.master} gave no executor within {WAIT_S:.0f} s: check for free workers")
        if waited_s > SILENT_S and not is_shown:
            show(f"waiting for {context.master} to give an executor")
            is_shown = True
        time.sleep(LOOK_S)
    try:
        (failure,) = context.parallelize([0], 1).map(lambda _: _import_failure(modules)).collect()
    except Exception as error:  # of Py4J or Spark, with the stack traces of both
        raise SetUpError(f"the workers of {context.master} cannot run Python: {_reason(str(error))}") from None
    if failure is not None:
        raise SetUpError(
            f"the workers of {context.master} cannot run the jobs: {failure}. Their Python (PYSPARK_PYTHON) needs the "
            f"packages of broker-cy[{extra}]"
        )


def _import_failure(modules: tuple[str, ...]) -> str | None:
    """On a worker: return why a module cannot be imported."""
    import importlib

    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            return f"{type(error).__name__}: {error} ({sys.executable})"
    return None


def _reason(text: str) -> str:
    """Return the line of a stack trace that states the error."""
    known = (r"Cannot run program [^\n]+", r"[^\n]*PYTHON_VERSION_MISMATCH[^\n]*", r"\w*Error: [^\n]+")
    for pattern in known:
        if found := re.findall(pattern, text):
            return str(found[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
