"""Shared parts of `broker-load` and plain locust as commands: the exit codes of a run that was performed. The other
codes are those of all programs (broker_cy.client.program).
"""

from __future__ import annotations

from typing import Final

# Verdicts; the highest that applies is the exit code.
GOOD: Final = 0
THRESHOLD_MISSED: Final = 10
GENERATOR_LIMIT: Final = 11
DATA_WRONG: Final = 12

PROGRAM: Final = "broker-load"
