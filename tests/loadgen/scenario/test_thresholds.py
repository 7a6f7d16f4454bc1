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
        (Threshold("Produce", "p99_ms", most=5), True, "Produce p99_ms: 5, as expected at most 5"),
        (Threshold("Produce", "p99_ms", most=4.9), False, "Produce p99_ms: 5, expected at most 4.9"),
        (Threshold("Produce", "rate", least=100), True, "Produce rate: 100, as expected at least 100"),
        (Threshold("Produce", "rate", least=101), False, "Produce rate: 100, expected at least 101"),
        (Threshold("Produce", "errors", most=0), True, "Produce errors: 0, as expected at most 0"),
        (Threshold("", "lost", most=0), False, "lost: 2, expected at most 0"),
        (Threshold("Fetch", "p99_ms", most=5), False, "Fetch p99_ms: not measured; expected at most 5"),
        (Threshold("Produce", "mean_ms", most=5), False, "Produce mean_ms: not measured; expected at most 5"),
    ],
)
def test_each_bound_is_judged(threshold: Threshold, is_met: bool, text: str) -> None:
    """If this fails, a pipeline passes a cluster that is too slow, or one that was not measured at all."""
    known = {("Produce", "p99_ms"): 5.0, ("Produce", "rate"): 100.0, ("Produce", "errors"): 0.0, ("", "lost"): 2.0}
    known["Produce", "mean_ms"] = float("nan")
    (verdict,) = judge([threshold], Result(known))
    assert (verdict.threshold, verdict.is_met, verdict.text) == (threshold, is_met, text)
