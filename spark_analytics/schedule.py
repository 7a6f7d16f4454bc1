"""A systemd service and timer for ingests that repeat."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from broker_cy.client.quantities import parse_duration

_EVERY_LEAST_MS, _EVERY_MOST_MS = 1_000, 366 * 86_400_000


def units(
    python: str, bootstrap: str, lake: Path, every: str, cluster: str | None = None, login: Path | None = None
) -> str:
    """Return the text of both units, which are named after the first address, because each broker of a lake may have
    its own; `login` is the file with the settings of a client. Raises ValueError for a wrong duration `every`.
    """
    every_ms = parse_duration(every)
    if not _EVERY_LEAST_MS <= every_ms <= _EVERY_MOST_MS:
        raise ValueError(f"{every!r} is out of range (allowed: 1s to 366d)")
    words = [python, "-m", "spark_analytics", "ingest", "--bootstrap", bootstrap, "--out", str(lake)]
    if cluster is not None:
        words += ["--cluster", cluster]
    if login is not None:
        words += ["--command-config", str(login)]
    name = "broker-analytics-" + re.sub(r"[^A-Za-z0-9]+", "-", bootstrap.split(",")[0]).strip("-")
    # systemd expands % and $ in a command.
    command = shlex.join(words).replace("%", "%%").replace("$", "$$")
    return f"""\
# /etc/systemd/system/{name}.service
[Unit]
Description=Ingest of the events and samples of {bootstrap.replace("%", "%%")}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart={command}

# /etc/systemd/system/{name}.timer
[Unit]
Description=Repeated ingest of events and samples

[Timer]
OnBootSec=2min
OnUnitInactiveSec={every_ms}ms

[Install]
WantedBy=timers.target
"""
