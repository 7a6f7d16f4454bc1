"""docs/mirror.md has the metrics of the mirror."""

from __future__ import annotations

from pathlib import Path

from broker_mirror.status import METRICS

ROOT = Path(__file__).resolve().parents[2]


def test_all_metrics_are_documented() -> None:
    """If this fails, the page of the mirror lacks a metric, or has one that does not exist."""
    text = (ROOT / "docs" / "mirror.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `broker_mirror_")]
    assert rows == [
        f"| `{each.name}` | {each.kind} | {', '.join(each.labels)} | {each.help} |" for each in METRICS.values()
    ]
