"""Reports settings of topics and client metrics subscriptions that are stored but have no effect yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker_cy.config import group, topic
from broker_cy.config.startup import NO_EFFECT
from broker_cy.core.logs import Event

# Number of (resource, its name, setting, value) that are remembered as reported; beyond it a line may be repeated.
REPORTED_MAX = 10_000

# By the field of the log line that names the resource.
_WITHOUT_EFFECT: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "topic": topic.without_effect,
    "client_metrics": group.client_metrics_without_effect,
}


class NoEffectReporter:
    """Reports settings that have no effect yet, with one event per resource, setting and value."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str, str, str]] = set()

    def events(self, resource: str, resource_name: str, overrides: Mapping[str, str]) -> list[Event]:
        """Return the events. `resource` is `topic` or `client_metrics`; `overrides` are all its settings."""
        found = []
        for name, text in _WITHOUT_EFFECT[resource](overrides).items():
            key = (resource, resource_name, name, text)
            if key not in self._reported:
                if len(self._reported) >= REPORTED_MAX:
                    self._reported.clear()
                self._reported.add(key)
                found.append(Event(NO_EFFECT, {resource: resource_name, "setting": name, "value": text}))
        return found
