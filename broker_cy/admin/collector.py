"""Settings of Python's garbage collector for commands and consoles."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# With Python's 700, 10, 10 the collector repeatedly scans the lag of 100,000 partitions for cycles; each scan takes a
# tenth of a second, and meanwhile a console does not react to keys. Full collections are as rare as with 50,000, 20,
# 50; but the middle generation, with up to 60,000 objects instead of a million, is scanned in 5 ms.
THRESHOLDS = (10_000, 4, 1_000)

# After so long without a key, the next one is unlikely to come within the next tenth of a second.
QUIET_S: Final = 2.0
# The interval between full collections while no key is pressed, and the longest one while keys are pressed.
FULL_EVERY_S: Final = 60.0
FULL_AT_LATEST_S: Final = 600.0
# A collection is due immediately when the process has gained more memory than this.
GROWTH_MAX_BYTES: Final = 64 << 20
_LOOK_S: Final = 0.5


def relax_collector() -> None:
    """Run the collector seldom, and exclude the objects that exist now. Call it once, when a command has started.

    Answers become trees of objects, which reference counting frees: the collector finds little garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def resident_bytes() -> int:
    """Memory of this process; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class IdleCollector:
    """Collects garbage while no key is pressed, instead of Python's automatic collections.

    Automatic collections start when many objects were created, so while a large answer is decoded. They scan the
    answer, which contains no garbage, for 10 ms to 150 ms; meanwhile no key is handled. Call `used` at each key.
    """

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        freeze: Callable[[], None] = gc.freeze,
        clock: Callable[[], float] = time.monotonic,
        memory_bytes: Callable[[], int] = resident_bytes,
    ) -> None:
        self._collect = collect
        self._freeze = freeze
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._used_at_s = clock()
        self._is_first = True
        # The garbage of the start is collected in the first quiet period.
        self._collected_at_s = clock() - FULL_EVERY_S
        self._collected_at_bytes = memory_bytes()

    def used(self) -> None:
        self._used_at_s = self._clock()

    def look(self) -> bool:
        """Collect garbage if a collection is due; return whether it was.

        The first collection excludes the objects of the start from later ones. No later object is excluded: a closed
        screen is garbage with cycles, and would stay in memory.
        """
        now_s = self._clock()
        is_quiet = now_s - self._used_at_s >= QUIET_S
        if now_s - self._collected_at_s < (FULL_EVERY_S if is_quiet else FULL_AT_LATEST_S) and (
            self._memory_bytes() - self._collected_at_bytes <= GROWTH_MAX_BYTES
        ):
            return False
        self._collect()
        if self._is_first:
            self._freeze()
            self._is_first = False
        self._collected_at_s = self._clock()
        self._collected_at_bytes = self._memory_bytes()
        return True

    async def run(self) -> None:
        """Runs until it is cancelled."""
        gc.disable()
        try:
            while True:
                await asyncio.sleep(_LOOK_S)
                self.look()
        finally:
            # The two calls move all objects to the oldest generation, which the first automatic collection skips.
            gc.freeze()
            gc.unfreeze()
            gc.enable()
