"""Reports settings of topics, groups and client metrics subscriptions that are stored but have no effect yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker_cy.config import group, topic
from broker_cy.config.startup import NO_EFFECT
from broker_cy.core.logs import Event

# (resource, its name, setting, value) remembered as reported; beyond it a line may come again.
REPORTED_MAX = 10_000

# By the field of the log line that names the resource.
_WITHOUT_EFFECT: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "topic": topic.without_effect,
    "group": group.without_effect,
    "client_metrics": group.client_metrics_without_effect,
}


class NoEffectReporter:
    """Gives one event for each resource and setting that has no effect yet, once per resource, setting and value."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str, str, str]] = set()

    def events(self, resource: str, resource_name: str, overrides: Mapping[str, str]) -> list[Event]:
        """`resource` is `topic`, `group` or `client_metrics`; `overrides` is all that is set for it."""
        found = []
        for name, text in _WITHOUT_EFFECT[resource](overrides).items():
            key = (resource, resource_name, name, text)
            if key not in self._reported:
                if len(self._reported) >= REPORTED_MAX:
                    self._reported.clear()
                self._reported.add(key)
                found.append(Event(NO_EFFECT, {resource: resource_name, "setting": name, "value": text}))
        return found
