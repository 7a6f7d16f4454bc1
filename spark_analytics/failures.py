"""The exceptions of a working Spark as one line: its own texts are stack traces of the JVM and of Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spark_analytics.errors import SparkFailedError

# The limit for the chain of causes of an exception: more than Spark nests.
CAUSES_MAX = 20


@contextmanager
def in_one_line(verbose: bool) -> Iterator[None]:
    """Raise SparkFailedError for exceptions of Spark in the block. With `verbose`, and for an exception of our own code
    in a worker, the stack traces are needed, so the exception is raised unchanged.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except PythonException:
        raise
    except (PySparkException, Py4JError) as error:
        if verbose:
            raise
        raise SparkFailedError(f"Spark failed: {_reason(error)} (--verbose shows more)") from None


def _reason(error: Any) -> str:
    """Return the message of an exception, and that of its first cause."""
    java: Any = getattr(error, "java_exception", None)  # of Py4JJavaError alone
    if java is None:
        return _line(str(error))
    found = [_line(java.getMessage() or java.getClass().getName())]
    for _ in range(CAUSES_MAX):
        if java.getCause() is None:
            break
        java = java.getCause()
    if (last := _line(java.getMessage() or java.getClass().getName())) not in found[0]:
        found.append(last)
    return ": ".join(found)


def _line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()
