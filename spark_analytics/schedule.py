"""A systemd service and timer for ingests that repeat."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from broker_cy.client.quantities import parse_duration

_EVERY_LEAST_MS, _EVERY_MOST_MS = 1_000, 366 * 86_400_000


def units(python: str, place: str, connect: Sequence[str], lake: Path, every: str, name: str | None = None) -> str:
    """Return the text of both units. `place` is the cluster's name or its first address: each broker of a lake may have
    its own units. `connect` are the options that select the cluster and its login, `name` is its name in the lake.
    Raises ValueError for a wrong duration `every`.
    """
    every_ms = parse_duration(every)
    if not _EVERY_LEAST_MS <= every_ms <= _EVERY_MOST_MS:
        raise ValueError(f"{every!r} is out of range (allowed: 1s to 366d)")
    words = [python, "-m", "spark_analytics", "ingest", *connect, "--lake", str(lake)]
    if name is not None:
        words += ["--name", name]
    unit = "broker-analytics-" + re.sub(r"[^A-Za-z0-9]+", "-", place).strip("-")
    # systemd expands % and $ in a command.
    command = shlex.join(words).replace("%", "%%").replace("$", "$$")
    return f"""\
# /etc/systemd/system/{unit}.service
[Unit]
Description=Ingest of the events and samples of {place.replace("%", "%%")}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart={command}

# /etc/systemd/system/{unit}.timer
[Unit]
Description=Repeated ingest of events and samples

[Timer]
OnBootSec=2min
OnUnitInactiveSec={every_ms}ms

[Install]
WantedBy=timers.target
"""
