"""Checks a run against the thresholds of its scenario."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from loadgen.scenario.model import Threshold
from loadgen.scenario.thresholds import judge


@dataclass
class Result:
    known: dict[tuple[str, str], float]

    def figure(self, operation: str, name: str) -> float | None:
        return self.known.get((operation, name))


@pytest.mark.parametrize(
    ("threshold", "is_met", "text"),
    [
        (Threshold("Produce", "p99_ms", most=5), True, "Produce p99_ms: 5 (expected: at most 5)"),
        (Threshold("Produce", "p99_ms", most=4.9), False, "Produce p99_ms: 5 (expected: at most 4.9)"),
        (Threshold("Produce", "rate", least=100), True, "Produce rate: 100 (expected: at least 100)"),
        (Threshold("Produce", "rate", least=101), False, "Produce rate: 100 (expected: at least 101)"),
        (Threshold("Produce", "errors", most=0), True, "Produce errors: 0 (expected: at most 0)"),
        (Threshold("", "lost", most=0), False, "lost: 2 (expected: at most 0)"),
        (Threshold("Produce", "max_ms", most=100), True, "Produce max_ms: 11.8 (expected: at most 100)"),
        (Threshold("Produce", "max_ms", most=11.79), False, "Produce max_ms: 11.8 (expected: at most 11.79)"),
        (Threshold("Produce", "max_ms", least=11.8), False, "Produce max_ms: 11.7965 (expected: at least 11.8)"),
        (
            Threshold("Produce", "requests", least=1e6),
            True,
            "Produce requests: 1,234,567 (expected: at least 1,000,000)",
        ),
        (Threshold("Fetch", "p99_ms", most=5), False, "Fetch p99_ms: not measured (expected: at most 5)"),
        (Threshold("Produce", "mean_ms", most=5), False, "Produce mean_ms: not measured (expected: at most 5)"),
    ],
)
def test_each_bound_is_judged(threshold: Threshold, is_met: bool, text: str) -> None:
    """If this fails, a pipeline passes a cluster that is too slow, or one that was not measured at all."""
    known = {("Produce", "p99_ms"): 5.0, ("Produce", "rate"): 100.0, ("Produce", "errors"): 0.0, ("", "lost"): 2.0}
    known["Produce", "mean_ms"] = float("nan")
    known |= {("Produce", "max_ms"): 11.7965, ("Produce", "requests"): 1_234_567}
    (verdict,) = judge([threshold], Result(known))
    assert (verdict.threshold, verdict.is_met, verdict.text) == (threshold, is_met, text)
