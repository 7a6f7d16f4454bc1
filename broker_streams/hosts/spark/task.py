"""The rows of a batch in a Spark task, which is a Python process of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class RepeatedAttempt(RuntimeError):
    """Spark runs a part of a batch again. The batch must fail: the first attempt may have written a part of it."""


def carry_out(file_name: str, works: Iterable[bytes]) -> Iterator[bytes]:
    """Carry out the pickled Work of the application in a file that Spark has distributed; yields each pickled Done.

    Raises RepeatedAttempt; ClientError: the brokers do not answer, or another driver has the task.
    """
    from pyspark import SparkFiles, TaskContext

    from broker_streams.hosts.spark import worker

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise RepeatedAttempt(f"attempt {context.attemptNumber()} of a task: the batch begins again as a whole")
    path = SparkFiles.get(file_name)
    for work in works:
        yield worker.run(path, work)
