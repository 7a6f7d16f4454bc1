"""Random acts of real clients on the real broker process, which is killed with kill -9: nothing acknowledged is lost.

A failure prints the seed, the acts on the topic, and the command that repeats the same acts: BLACKBOX_SEED=<seed>.
The lanes of a round interleave arbitrarily, so that a rare failure may take several runs. With
BLACKBOX_KEEP=<directory> each run that fails keeps the broker's files there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.blackbox.run import SETTINGS, Run
from tests.support.broker import Target

MakeBroker = Callable[..., Target]
SEED = int(os.environ.get("BLACKBOX_SEED", "1"))
# Rounds of one short run.
ROUNDS = int(os.environ.get("BLACKBOX_ROUNDS", "12"))
# A long run consists of runs of this many rounds, each with its own seed and broker.
LONG_ROUNDS = 40
SOAK_S = float(os.environ.get("BLACKBOX_SOAK_S", "3600"))


def run(make_broker: MakeBroker, seed: int, rounds: int) -> Run:
    again = f"BLACKBOX_SEED={seed} BLACKBOX_ROUNDS={rounds} python -m pytest tests/blackbox -k test_short_run"
    broker = make_broker(SETTINGS)
    found = Run(broker, seed, again)
    found.go_on(lambda: found.rounds >= rounds)
    broker.close()
    return found


@pytest.mark.full
@pytest.mark.timeout(900)
def test_short_run(make_broker: MakeBroker) -> None:
    """If this fails, acknowledged records are lost, duplicated, changed or out of order, or deleted ones come back."""
    found = run(make_broker, SEED, ROUNDS)
    print(f"{found.rounds} rounds, {found.kills} kills, {found.world.acked} acknowledged, {found.read} read")
    assert found.kills >= found.rounds // 2, "the run was idle"
    assert found.world.acked > 50 * found.rounds, "the run was idle"


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_S)
def test_long_run(make_broker: MakeBroker) -> None:
    """The same for an hour (BLACKBOX_SOAK_S seconds), seed after seed."""
    deadline = time.monotonic() + SOAK_S
    seed = SEED
    totals = [0, 0, 0, 0]
    while time.monotonic() < deadline:
        found = run(make_broker, seed, LONG_ROUNDS)
        totals = [
            a + b for a, b in zip(totals, (found.rounds, found.kills, found.world.acked, found.read), strict=True)
        ]
        print("seed {}: {} rounds, {} kills, {} acknowledged, {} read".format(seed, *totals), flush=True)
        seed += 1
    assert seed > SEED, "the run was idle"
