"""The programs of the steady clients, and the lines that they print; see steady.py."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.launch import go_programs, kafka_dist
from broker_cy.launch.processes import ProcessError, die_with_parent

HERE: Final = Path(__file__).parent
# The time for acknowledgements and for the end of Java.
END_S: Final = 150.0
NO_GROUP: Final = "-"


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(HERE / "steady.py"), name]


def _java() -> list[str]:
    return kafka_dist.program_command(HERE / "Steady.java", kafka_dist.kafka_classpath())


def _go() -> list[str]:
    return [str(go_programs.program(HERE / "franz_go"))]


# The start of each client's command line.
CLIENTS: Final[dict[str, Callable[[], list[str]]]] = {
    "librdkafka": _python("confluent-kafka"),
    "franz-go": _go,
    "java": _java,
    "kafka-python": _python("kafka-python"),
    "aiokafka": _python("aiokafka"),
}


def missing(name: str) -> str | None:
    """Return a sentence about missing programs for a client; None if nothing is missing."""
    return {"franz-go": go_programs.missing, "java": kafka_dist.missing_for_programs}.get(name, lambda: None)()


class LineProgram:
    """A program that prints lines until its stdin ends. A thread reads them as they arrive."""

    def __init__(self, argv: Sequence[str], directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.lines: list[str] = []
        self.errors_path = directory / f"{name}.stderr"
        with open(self.errors_path, "wb") as errors:
            self._process = subprocess.Popen(
                die_with_parent(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.took(line.rstrip("\n"))

    def took(self, line: str) -> None:
        """A line was printed."""
        self.lines.append(line)

    def state(self) -> str:
        """Return its exit code, its last lines and its errors, for messages."""
        return (
            f"{self.name}: exit code {self._process.poll()}, {self.lines[-3:]}, {self.errors_path.read_text()[-2000:]}"
        )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> None:
        """Let it end by itself. Raises ProcessError if it does not end, or ends with an error."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.state()}: did not end within {END_S:g} s") from None
        self._reader.join(END_S)
        if code or self.lines[-1:] != ["done"]:
            raise ProcessError(self.state())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Acked(NamedTuple):
    """An acknowledged record: times in microseconds of the system's clock."""

    number: int
    partition: int
    offset: int
    sent_us: int
    acked_us: int


def acked(line: str) -> Acked | None:
    """Parse a line; None if it is of another kind."""
    kind, _, rest = line.partition(" ")
    return Acked(*map(int, rest.split())) if kind == "acked" else None
