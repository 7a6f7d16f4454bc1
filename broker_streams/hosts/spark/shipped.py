"""An application as bytes, for workers that lack its file and the modules next to it."""

from __future__ import annotations

import copyreg
import pickle
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from broker_streams.plan.topology import Topology

# Serdes have them. Python knows how to make one again, and does not say so.
copyreg.pickle(struct.Struct, lambda found: (struct.Struct, (found.format,)))


class Shipped(NamedTuple):
    """The topology, and the settings of the application."""

    topology: Topology
    config: dict[str, Any]


def packed(application: Shipped, directory: Path | None = None) -> bytes:
    """Functions and classes of the application's file, and of modules in `directory`, go by value: workers do not
    import them. Raises ValueError: an object in a closure, such as a lock, cannot be copied.
    """
    from pyspark import cloudpickle

    try:
        with _by_value(cloudpickle, directory):
            data: bytes = cloudpickle.dumps(tuple(application))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(f"the application cannot be copied to Spark's workers: {error}") from error
    return data


def unpacked(data: bytes) -> Shipped:
    from pyspark import cloudpickle

    return Shipped(*cloudpickle.loads(data))


@contextmanager
def _by_value(cloudpickle: Any, directory: Path | None) -> Iterator[None]:
    theirs = [] if directory is None else [each for each in list(sys.modules.values()) if _is_in(each, directory)]
    for each in theirs:
        cloudpickle.register_pickle_by_value(each)
    try:
        yield
    finally:
        for each in theirs:
            cloudpickle.unregister_pickle_by_value(each)


def _is_in(module: ModuleType, directory: Path) -> bool:
    """Whether a module is beside the application, and no installed package."""
    path = getattr(module, "__file__", None)
    if path is None or module.__name__ in ("__main__", "__mp_main__"):
        return False
    found = Path(path).resolve()
    return directory.resolve() in found.parents and "site-packages" not in found.parts and not _is_ours(module)


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] in (
        "broker_cy",
        "broker_registry",
        "broker_sql",
        "broker_streams",
        "spark_analytics",
    )
