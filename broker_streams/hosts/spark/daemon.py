"""Spark's daemon for Python workers, on the driver's machine: `python -m broker_streams.hosts.spark.daemon`.

Spark starts it in place of `pyspark.daemon` (spark.python.daemon.module); workers are its forks. It imports all that a
worker needs before the first fork, so that the workers share these pages. It takes PySpark from where it is installed:
Spark puts archives of it first, which have no compiled modules, and whose directories are read again for each task.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from typing import Final

# None of them starts a thread.
_MODULES: Final = ("pyspark.worker", "broker_streams.hosts.spark.worker", "broker_streams.hosts.spark.task")


def main() -> None:
    leave_archives_out()
    from pyspark.daemon import manager

    prepare()
    manager()


def leave_archives_out() -> None:
    sys.path[:] = [each for each in sys.path if not _is_archive(Path(each))]


def prepare() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    # The collector writes into objects that it looks at, which would copy their pages in each worker.
    gc.collect()
    gc.freeze()


def _is_archive(path: Path) -> bool:
    return path.suffix == ".zip" and path.parent.name == "lib" and path.name.startswith(("pyspark", "py4j"))


if __name__ == "__main__":
    main()
