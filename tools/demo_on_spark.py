"""The application of the demo on Spark, beside the demo's own instance, for pictures of the consoles' pages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.launch.nodes import free_ports
from demo import application
from demo.topics import APPLICATION

ON_SPARK: Final = f"{APPLICATION}-on-spark"
STOP_S: Final = 60.0


@contextmanager
def running_on_spark(bootstrap: str) -> Iterator[None]:
    """Its driver runs in the block. Raises SystemExit: it has ended."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="demo-on-spark-") as directory:
        settings = {
            "application.id": ON_SPARK,
            "application.server": f"127.0.0.1:{port}",
            "metrics.recording.level": "DEBUG",
            "state.dir": directory,
        }
        words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        command = [sys.executable, "-m", "broker_streams", "run", str(Path(application.__file__)), "-b", bootstrap]
        root = str(Path(__file__).resolve().parents[1])
        process = subprocess.Popen(
            [*command, "--host", "spark", "--master", "local[2]", "--json", *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            if not ready:
                raise SystemExit("the application on Spark ended")
            assert json.loads(ready)["application"] == ON_SPARK
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
