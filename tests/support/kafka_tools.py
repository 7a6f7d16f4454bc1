"""Kafka's command-line tools in one JVM for all tests of a process: a JVM for each costs ten times the CPU time.

A test that measures a tool, or gives it options of the JVM, starts its own (bench.launch.kafka_dist).
"""

from __future__ import annotations

import atexit
import struct
import subprocess
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO

from bench.launch import kafka_dist
from broker_cy.launch import java_programs
from broker_cy.launch.processes import ProcessError

_INT = struct.Struct(">i")
# The last part of the messages of a failed tool.
_SHOWN_BYTES = 3000
_END_S = 10.0


class _Jvm:
    """The JVM, which runs one tool at a time (KafkaTools.java)."""

    def __init__(self) -> None:
        command = kafka_dist.program_command(Path(__file__).with_name("KafkaTools.java"), kafka_dist.kafka_classpath())
        # The JVM exits when its stdin is closed, which happens at the end of this process.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._turn = threading.Lock()
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(self, words: Sequence[str], stdin: bytes, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Return the exit code and both outputs. Raises ProcessError, and ends the JVM, if the tool does not end."""
        with self._turn:
            late = threading.Timer(timeout_s, self._process.kill)
            late.start()
            try:
                return self._ask(words, stdin)
            except (OSError, EOFError):
                self.close()
                raise ProcessError(f"{' '.join(words)[:400]}: still running after {timeout_s:g} s") from None
            finally:
                late.cancel()

    def _ask(self, words: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        parts = [word.encode() for word in words]
        framed = [_INT.pack(len(part)) + part for part in (*parts, stdin)]
        self._process.stdin.write(_INT.pack(len(parts)) + b"".join(framed))
        self._process.stdin.flush()
        answers = self._process.stdout
        code = _int(answers)
        return code, _exactly(answers, _int(answers)), _exactly(answers, _int(answers))

    def close(self) -> None:
        """End the JVM."""
        atexit.unregister(self.close)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(_END_S)
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass


def _int(source: IO[bytes]) -> int:
    number: int = _INT.unpack(_exactly(source, _INT.size))[0]
    return number


def _exactly(source: IO[bytes], count: int) -> bytes:
    found = source.read(count)
    if len(found) < count:
        raise EOFError
    return found


@cache
def _jvm() -> _Jvm:
    return _Jvm()


def run_tool(
    class_name: str, *arguments: str | Path, stdin: bytes = b"", timeout_s: float = 90.0, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Run a tool by its class, such as org.apache.kafka.tools.TopicCommand.

    Raises ProcessError, with both outputs, if it takes longer than `timeout_s`, or if `check` is set and its exit code
    is not 0.
    """
    return _run("", class_name, arguments, stdin, timeout_s, check)


def run_program(
    source: Path, *arguments: str | Path, stdin: bytes = b"", timeout_s: float = 90.0
) -> subprocess.CompletedProcess[bytes]:
    """Run a program of one source file that uses Kafka's classes. Raises ProcessError as `run_tool` does."""
    directory = java_programs.classes(source, kafka_dist.kafka_classpath())
    return _run(str(directory), source.stem, arguments, stdin, timeout_s, True)


def _run(
    directory: str, class_name: str, arguments: Sequence[str | Path], stdin: bytes, timeout_s: float, check: bool
) -> subprocess.CompletedProcess[bytes]:
    if not _jvm().alive:
        _jvm.cache_clear()
    words = [class_name, *map(str, arguments)]
    code, out, err = _jvm().run([directory, *words], stdin, timeout_s)
    if check and code != 0:
        shown = f"stdout: {out[-_SHOWN_BYTES:].decode()}\nstderr: {err[-_SHOWN_BYTES:].decode()}"
        raise ProcessError(f"{' '.join(words)[:400]}: exit code {code}\n{shown}")
    return subprocess.CompletedProcess(words, code, out, err)
