"""GetTelemetrySubscriptions (KIP-714), which Kafka answers although it does not advertise it without a plugin."""

from __future__ import annotations

import uuid
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.script import Run, script

# Ids of client instances that other scripts do not use.
KNOWN = uuid.UUID("6f1d5f8f-1f0e-4a6e-9d0b-0c1e5a9b7d12")
OTHER = uuid.UUID("00000000-0000-0000-8000-000000000077")
NEW = uuid.UUID(int=0)


@script(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
def telemetry_subscriptions(run: Run, version: int) -> None:
    def asked(client_id: uuid.UUID) -> Any:
        return messages.GetTelemetrySubscriptionsRequest(client_instance_id=client_id)

    new = run.client().ask(asked(NEW), version)
    assert not isinstance(new, str)
    run.names.give("client instance", new.client_instance_id)
    # It is derived from the instance id, which is random here.
    new.subscription_id = 0
    run.record("a new client", new)
    run.ask("a client that is not known", asked(KNOWN), version)
    run.ask("again, too early", asked(KNOWN), version)
    run.ask("another client", asked(OTHER), version)
