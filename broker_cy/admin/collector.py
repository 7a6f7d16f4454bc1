"""Python's garbage collector, told what a console knows."""

from __future__ import annotations

import gc

# As the broker has them. With Python's 700, 10, 10 the lag of 100,000 partitions is looked through for circles again
# and again: a tenth of a second each time, in which no key is heard.
THRESHOLDS = (50_000, 20, 50)


def relax_collector() -> None:
    """Let the collector look seldom, and never at what there is now. To be called once, when a console has started.

    Answers become trees of objects, which go when nobody holds them any more: there is little for a collector to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
