"""The group APIs answer a long conversation as Apache Kafka 4.3.1 did (group_script.py records it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run
from tests.broker_cy.coordinator_services.group_script import FIXTURE, SETTINGS, play


def without_our_reasons(label: str, answer: Any) -> Any:
    """Kafka gives no reason why a coordinator is refused; our response lists the allowed types."""
    if label.startswith("find share"):
        for coordinator in answer["coordinators"]:
            assert coordinator["error_message"]
            coordinator["error_message"] = ""
    return answer


def test_every_answer_is_kafkas(tmp_path: Path) -> None:
    """If this fails, some client, in some version and state of its group, gets an unexpected answer."""
    kafkas = json.loads(FIXTURE.read_text())

    async def work() -> None:
        async with GroupBroker(tmp_path, SETTINGS) as broker:
            told = json.loads(json.dumps(await play("127.0.0.1", broker.server.listeners[0].port)))
        told = [(label, without_our_reasons(label, answer)) for label, answer in told]
        assert [label for label, _ in told] == [label for label, _ in kafkas]
        different = [
            f"{label}\n  Kafka: {json.dumps(theirs, sort_keys=True)}\n  here:  {json.dumps(ours, sort_keys=True)}"
            for (label, ours), (_, theirs) in zip(told, kafkas, strict=True)
            if ours != theirs
        ]
        assert not different, "\n".join(different)

    run(work)
