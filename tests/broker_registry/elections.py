"""Instances that take part in the election of the one that writes."""

from __future__ import annotations

import urllib.error

from broker_registry.errors import Code
from tests.support.registry import Registry, Reply
from tests.support.wait import until

ELECTION_S = 60.0
# The shortest session that a broker allows.
ELECTION = {
    "brokercy.leader.election": "true",
    "kafkagroup.session.timeout.ms": "6000",
    "kafkagroup.heartbeat.interval.ms": "300",
}
_NOT_YET = (Code.UNKNOWN_LEADER, Code.FORWARDING_FAILED, Code.TIMED_OUT)


def registered(registry: Registry, subject: str, text: str) -> Reply:
    """Register as soon as the election that is held now is over."""

    def attempt() -> Reply | None:
        reply = registry.register(subject, text)
        return reply if reply.status == 200 or reply.body["error_code"] not in _NOT_YET else None

    return until(attempt, "a leader", ELECTION_S, tolerate=(urllib.error.URLError, ConnectionError))
