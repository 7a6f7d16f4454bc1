"""The names of the topics that the broker itself writes."""

from __future__ import annotations

from typing import Final

EVENTS: Final = "__cluster_events"
SAMPLES: Final = "__broker_metrics"
# The client id of writes to them: of brokers that do not lead them, and of programs that write events.
OWN_CLIENT: Final = "__broker_cy_own_topics"
