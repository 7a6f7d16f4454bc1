"""Settings of Python's garbage collector for consoles."""

from __future__ import annotations

import gc

# The broker's values. With Python's 700, 10, 10 the collector scans the lag of 100,000 partitions for cycles again and
# again; each scan takes a tenth of a second, in which a console does not react to keys.
THRESHOLDS = (50_000, 20, 50)


def relax_collector() -> None:
    """Run the collector seldom, and exclude the objects that exist now. Call it once, when a console has started.

    Answers become trees of objects, which reference counting frees: there is little for a collector to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
