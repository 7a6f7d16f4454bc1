"""Runs of all kinds of users with `broker-load run`, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loadgen.report.result import Result
from tests.loadgen.run.kit import UNDISTURBED, Load, load
from tests.support.broker import Target

HEAD = """
duration = "{seconds}s"
warm_up = "0.2s"
timeout = "20s"
[topic]
name = "{topic}"
partitions = {partitions}
"""
PRODUCER = """
[[users]]
kind = "producer"
name = "writers"
count = 2
rate = "200/s"
"""


def run_users(
    directory: Path,
    broker: Target,
    topic: str,
    users: str,
    *options: str,
    seconds: float = 3,
    partitions: int = 4,
    meanwhile: Callable[[Load], None] | None = None,
) -> Result:
    """Run users for some seconds, together with producers of 200 records/s; no written record may be lost."""
    scenario = directory / "scenario.toml"
    text = HEAD.format(seconds=seconds, topic=topic, partitions=partitions) + PRODUCER + users
    scenario.write_text(text, encoding="utf-8")
    run = load(directory, broker.bootstrap, "--scenario", scenario, *options, meanwhile=meanwhile)
    assert run.code in UNDISTURBED, run.stdout + run.stderr
    verification = run.of.verification
    assert verification is not None
    assert verification.is_good, run.stdout
    return run.of
