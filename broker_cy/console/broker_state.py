"""The state of a broker, from the cluster's answer about it and from the newest event about it.

DescribeCluster only reports whether a broker is fenced. The cluster's events have the reason, and show that a broker
which still serves has begun to shut down; with brokers that write no events, both are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.console.rows import BrokerRow
from broker_cy.metrics.events import BrokerFenced, BrokerStarted, BrokerStopped, BrokerUnfenced, Event, Stamped
from broker_cy.reporting.tone import Tone


def newest_about(events: Iterable[Stamped]) -> dict[int, Event]:
    """The newest event about the state of each broker; `events` are in the order of their occurrence."""
    found: dict[int, Event] = {}
    for each in events:
        event = each.event
        if isinstance(event, BrokerFenced | BrokerUnfenced):
            found[event.node] = event
        elif isinstance(event, BrokerStarted | BrokerStopped):
            found[each.broker] = event
    return found


def state_of(row: BrokerRow, newest: Event | None) -> tuple[str, Tone]:
    """`fenced (lost)`, `shutting down`, `cordoned`, `controller` or `broker`, and its tone."""
    if row.info.is_fenced:
        cause = (newest.reason or newest.cause).replace("_", " ") if isinstance(newest, BrokerFenced) else ""
        return (f"fenced ({cause})" if cause else "fenced"), Tone.BAD
    if isinstance(newest, BrokerStopped):
        return "shutting down", Tone.WARN
    if row.is_cordoned:
        return "cordoned", Tone.WARN
    return ("controller", Tone.GOOD) if row.is_controller else ("broker", Tone.PLAIN)


_ATTENTION = (Tone.PLAIN, Tone.GOOD, Tone.WARN, Tone.BAD)


def state_of_host(row: BrokerRow, newest: Mapping[int, Event]) -> tuple[str, Tone]:
    """The worst state of a host's shards, with their number unless all are in it. `newest`: of newest_about."""
    states = [state_of(each, newest.get(each.info.broker_id)) for each in row.parts]
    text, tone = max(states, key=lambda each: _ATTENTION.index(each[1]))
    same = states.count((text, tone))
    counted = tone in (Tone.BAD, Tone.WARN) and same < len(states)
    return (f"{same} {text}" if counted else text), tone
