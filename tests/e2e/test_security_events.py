"""The security events of a running broker: denials with their client and reason, and changes of ACLs and users with
their author.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli, bare  # noqa: F401 (a fixture)
from tests.support.sasl_broker import ADMIN_PASSWORD, ALICE, PASSWORD
from tests.support.secured_broker import SecuredBroker
from tests.support.wait import until

DENIAL = AclBinding(
    ResourceType.TOPIC,
    "secret",
    ResourcePatternType.PREFIXED,
    f"User:{ALICE}",
    "*",
    AclOperation.ALL,
    AclPermissionType.DENY,
)


def test_refusals_and_changes_are_events(bare: Cli, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, an engineer has to read the logs of all brokers to find a denial and its reason."""
    broker = SecuredBroker(tmp_path)
    broker.start()
    try:
        alice = broker.client_file(ALICE, PASSWORD)
        stranger = broker.client_file("mallory", "mallorys-own-password")

        def events(kind: str) -> list[dict[str, Any]]:
            said = bare("events", "--json", "--type", kind, "--bootstrap", broker.open_bootstrap)
            return [json.loads(line) for line in said.out.splitlines()]

        bare("topics", "create", "secret-1", "--bootstrap", broker.open_bootstrap)
        bare("topics", "list", "--bootstrap", broker.bootstrap, "--command-config", stranger, code=1)
        (failed,) = until(lambda: events("login_failed"), "the failed login", TIMEOUT_S)
        assert (failed["user"], failed["mechanism"], failed["host"]) == ("mallory", "PLAIN", "127.0.0.1")
        assert failed["reason"]
        assert failed["count"] >= 1

        config: dict[str, str | int | float | bool] = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": ADMIN_PASSWORD,
            "client.id": "an-admin",
        }
        admin = AdminClient(config)
        for done in admin.create_acls([DENIAL]).values():
            done.result(TIMEOUT_S)
        (created,) = until(lambda: events("acls_created"), "the new ACL", TIMEOUT_S)
        assert created["acls_total"] == 1
        assert created["by"] == {"client_id": "an-admin", "host": "127.0.0.1", "principal": "User:admin"}
        rule = created["acls"][0]
        assert (rule["permission"], rule["name"], rule["pattern_type"]) == ("DENY", "secret", "PREFIXED")

        bare("topics", "describe", "secret-1", "--bootstrap", broker.bootstrap, "--command-config", alice, code=1)
        denied = until(lambda: events("access_denied"), "the refusal", TIMEOUT_S)
        assert {(each["principal"], each["resource"], each["operation"]) for each in denied} == {
            (f"User:{ALICE}", "secret-1", "DESCRIBE")
        }
        assert all((each["reason"], each["rule"]) == ("denied", rule) for each in denied)

        broker.add_user("bob", "bobs-own-password", ["SCRAM-SHA-256"])
        (changed,) = until(lambda: events("scram_users_changed"), "the new user", TIMEOUT_S)
        assert changed["credentials"] == [
            {"user": "bob", "mechanism": "SCRAM-SHA-256", "change": "created", "iterations": 4096}
        ]
        said = bare("events", "--bootstrap", broker.open_bootstrap).out
        assert f"denied by deny User:{ALICE} all topic:secret*" in said
        for secret in ("bobs-own-password", "mallorys-own-password", PASSWORD, ADMIN_PASSWORD):
            assert secret not in said
    finally:
        broker.close()
