"""What a broker needs of the machine, handed in from above: nothing below reads the machine's clock or randomness by
itself. So a simulation can run several real brokers in one thread.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from broker_cy.core.clock import MACHINE_CLOCK, Clock
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness


@dataclass(frozen=True, slots=True)
class Seams:
    """What one broker is given. `loop.time()` is on the same scale as `clock.monotonic()`."""

    clock: Clock
    randomness: Randomness
    loop: asyncio.AbstractEventLoop


def of_the_machine(loop: asyncio.AbstractEventLoop) -> Seams:
    """Return what the machine offers to the broker of this process, which runs on `loop`."""
    return Seams(MACHINE_CLOCK, MACHINE_RANDOMNESS, loop)
