"""The current progress of Spark, as one line on the terminal: nothing is shown if stderr is not a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.25


@dataclass(frozen=True)
class Doing:
    """The running stages: their ids, and the sum of their tasks."""

    stages: tuple[int, ...] = ()
    done: int = 0
    total: int = 0

    @property
    def text(self) -> str:
        if not self.stages:
            return "planning"
        many = f" and {len(self.stages) - 1} more" if len(self.stages) > 1 else ""
        return f"stage {self.stages[0]}{many}, {self.done:,} of {self.total:,} tasks"


def doing(spark: SparkSession) -> Doing:
    """Return the running stages."""
    tracker = spark.sparkContext.statusTracker()
    # A stage may have ended since its id was read.
    known = [(each, tracker.getStageInfo(each)) for each in sorted(tracker.getActiveStageIds())]
    found = [(each, info) for each, info in known if info is not None]
    return Doing(
        tuple(each for each, _ in found),
        sum(info.numCompletedTasks for _, info in found),
        sum(info.numTasks for _, info in found),
    )


class Progress:
    """Shows a line while parts of a job run. `stream` is stderr unless another one is given."""

    def __init__(self, spark: SparkSession, stream: TextIO | None = None) -> None:
        self._spark = spark
        self._console = Console(file=stream or sys.stderr, highlight=False)

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Show `name`, the stages, their tasks and the seconds until the end of the block; the line is then removed, so
        that the next output takes its place.
        """
        if not self._console.is_terminal:
            yield
            return
        ended = threading.Event()
        # Only the thread of `look` draws.
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            looking = threading.Thread(target=self._look, args=(name, live, ended), daemon=True)
            looking.start()
            try:
                yield
            finally:
                ended.set()
                looking.join()

    def _look(self, name: str, live: Live, ended: threading.Event) -> None:
        began_s = time.monotonic()
        while True:
            text = f"{name}: {doing(self._spark).text}, {time.monotonic() - began_s:,.0f} s"
            live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            if ended.wait(LOOK_S):
                return
