"""A program in Java that answers requests, for tests that compare our answers with its: one JVM for all of them, one
JSON value a line in both directions.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker_cy.launch import java_programs

_ANSWER_S = 60.0
_END_S = 10.0
_SHOWN_BYTES = 3000


class JavaOracle:
    """Use it as a context. `class_path` has the jars and directories of the program, `others` the further files of its
    source, `options` are of the JVM.
    """

    def __init__(self, source: Path, class_path: str, others: Sequence[Path] = (), options: Sequence[str] = ()) -> None:
        directory = java_programs.classes(source, class_path, others)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        self._process = subprocess.Popen(
            # A deep stack, so that Java's recursion does not end before ours.
            ["java", "-XX:TieredStopAtLevel=1", "-Xss16m", *options, "-cp", f"{directory}:{class_path}", source.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            start_new_session=True,
        )

    def ask(self, request: Any) -> Any:
        """Return the answer. Raises AssertionError, with the program's errors, if it does not come in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(_ANSWER_S, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            late.cancel()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"no answer: {self._errors.read()[-_SHOWN_BYTES:].decode(errors='replace')}")
        return json.loads(line)

    def __enter__(self) -> JavaOracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(_END_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass
        self._errors.close()
