"""The names of the topics that the broker itself writes."""

from __future__ import annotations

from typing import Final

EVENTS: Final = "__cluster_events"
SAMPLES: Final = "__broker_metrics"
