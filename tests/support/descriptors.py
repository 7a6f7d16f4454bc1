"""Keeps a long simulation below the limit of open files."""

from __future__ import annotations

import gc
import os

# Well below the usual limits. A crashed broker's objects hold its files, and cycles keep them until a collection.
OPEN_MAX = 2_000


def release_descriptors() -> None:
    """Collect cycles if many files are open."""
    if len(os.listdir("/proc/self/fd")) > OPEN_MAX:
        gc.collect()
