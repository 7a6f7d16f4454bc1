"""Very short workloads, and the document of a run with one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import cli
from bench.report import result

WORKLOAD = """\
[records]
size = "1 KB"
[producers]
batch = "16 KiB"
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "400 ms"
"""
ON_SCHEDULE = WORKLOAD.replace('"16 KiB"', '"1 B"\nrate = "2000 requests/s"').replace(
    "[time]", "[consumers]\ncount = 1\n[time]"
)
# Otherwise the deletion of each window's topic takes a second.
QUICK = 'kind = "{}"\n[settings]\n"log.segment.delete.delay.ms" = 0\n'


def written(directory: Path) -> Path:
    """Write the workloads `fast`, `scheduled` and `producing`."""
    (directory / "fast.toml").write_text(WORKLOAD)
    (directory / "scheduled.toml").write_text(ON_SCHEDULE)
    (directory / "producing.toml").write_text(ON_SCHEDULE.replace("count = 1", "count = 0"))
    return directory


def quickly(files: Path, arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with targets of QUICK instead of the tool's own targets of the same names."""
    for kind in ("ours", "kafka"):
        (files / f"{kind}.toml").write_text(QUICK.format(kind))
    return [str(files / f"{each}.toml") if each in ("ours", "kafka") else each for each in arguments]


def measure(files: Path, mode: str, workload: str, *arguments: str) -> dict[str, Any]:
    """Run a mode in this process; returns its JSON document."""
    out = files / "out.json"
    argv = [mode, *quickly(files, arguments), "-w", str(files / f"{workload}.toml")]
    argv += ["--json-file", str(out), "--dir", str(files / "data")]
    assert cli.main(argv) == 0
    assert result.read(out).failed is None
    assert not list((files / "data").iterdir()), "data of a broker that was started is left"
    document: dict[str, Any] = json.loads(out.read_text())
    assert all(run["failed"] is None for run in document["runs"])
    return document


def labels(document: dict[str, Any]) -> list[str]:
    return [run["label"] for run in document["runs"]]
