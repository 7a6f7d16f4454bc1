"""The two tiers of the tests.

`make test` runs all tests except those marked `full` or `soak`, in at most 15 minutes on two cores. `make test-all`
runs all except those marked `soak`. It sets BROKER_CY_TESTS=all, as `make soak` does: simulations and fuzzers then run
more seeds and mutants, and planted defects are searched instead of tried with their recorded seed only.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

IS_FULL: Final = os.environ.get("BROKER_CY_TESTS") == "all"
"""True under `make test-all` and `make soak`."""


def by_tier(quick: T, full: T) -> T:
    """Return the value for the current tier: `quick` for `make test`, `full` for the others."""
    return full if IS_FULL else quick
