"""The pages of ACLs with explanations, of SCRAM users, and of denied requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.security.sasl.exchange import Login
from dashboard.pages import acls, denied_requests, scram_users
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, VIEWER, Desk
from tests.support.sasl_broker import ALICE, PASSWORD
from tests.support.secured_broker import SecuredBroker

SECRET = "a-very-secret-password"
ASKED = {"principal": "bob", "operation": "read", "resource": "topic:orders-1", "host": "*"}
ACL = {
    "permission": "allow",
    "principal": "bob",
    "operation": "read",
    "resource": "topic:orders",
    "pattern": "all that begin with it",
    "host": "*",
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_acls_are_created_explained_and_deleted(secured: SecuredBroker) -> None:
    """If this fails, an engineer grants other ACLs than the page shows, or the explanation of a denial is wrong."""

    async def job(desk: Desk) -> None:
        assert [field["name"] for field in (await desk.open("create-acl"))["form"]["fields"]] == [*ACL][:6]
        wrong = await desk.plan("create-acl", {**ACL, "operation": "reed"})
        assert "'reed'" in wrong["problems"]["operation"]
        plan = (await desk.plan("create-acl", ACL))["plan"]
        assert plan["command"].startswith("broker-cy acls create allow User:bob read topic:orders --prefixed")
        assert (await desk.execute(plan))["said"] == "created allow User:bob read topic:orders*"
        rows = await desk.rows("acls", lambda state: state["rows"])
        acl = "allow User:bob read topic:orders*"
        assert rows[acl] == {
            "resource": "topic:orders*",
            "permission": "allow",
            "principal": "User:bob",
            "operation": "read",
            "host": "*",
        }
        assert list(await desk.rows("acls", lambda state: state["total"], filter="alice")) == []
        for operation, first in (("read", "ALLOWED"), ("write", "DENIED")):
            given: dict[str, Any] = {**ASKED, "operation": operation}
            lines = await desk.rows("acl-explanation", **given)
            assert lines["0"]["line"] == f"{first}: User:bob {operation} topic:orders-1"
        assert "acl-explanation" in layout_of(desk, "acls", **ASKED)
        page = layout_of(desk, "acls", **{**ASKED, "operation": "reed"})
        assert "reed" in page
        assert "acl-explanation" not in page
        with pytest.raises(ClientError, match="operation: 'reed'"):
            desk.look("acl-explanation", **{**ASKED, "operation": "reed"})
        deletion = (await desk.open("delete-acls", rows=[acl]))["plan"]
        assert deletion["changes"] == [acl]
        assert (await desk.execute(deletion))["said"] == "deleted 1 ACL"
        with pytest.raises(ClientError, match="no ACL is marked"):
            await desk.open("delete-acls")

    drive(secured.open_bootstrap, job, ADMIN)


def test_users_are_created_get_passwords_and_are_deleted(secured: SecuredBroker) -> None:
    """If this fails, a user cannot log in, a deleted one still can, or a response or the audit log contains a
    password.
    """
    user = {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": "4096"}

    async def login(password: str) -> None:
        credentials = ClientLogin(Login("SCRAM-SHA-512", "carol", password))
        async with AdminClient(secured.bootstrap, timeout_s=10, login=credentials) as client:
            await client.topics.list_all()

    async def job(desk: Desk) -> None:
        form = (await desk.open("create-user"))["form"]
        assert [field["name"] for field in form["fields"] if field["secret"]] == ["password", "again"]
        wrong = await desk.plan("create-user", {**user, "password": SECRET, "again": "x"})
        assert wrong["problems"] == {"again": "is another password"}
        answer = await desk.plan("create-user", {**user, "password": SECRET, "again": SECRET})
        report = await desk.execute(answer["plan"])
        assert SECRET not in json.dumps([answer, report])
        assert SECRET not in json.dumps(desk.security.audit.entries)
        await login(SECRET)
        rows = await desk.rows("scram-users", lambda state: state["rows"])
        (place,) = rows
        assert rows[place] == {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": "4,096"}
        answer = await desk.plan("set-password", {**user, "password": "other", "again": "other"}, rows=[place])
        await desk.execute(answer["plan"])
        await login("other")
        with pytest.raises(ClientError):
            await login(SECRET)
        deletion = (await desk.open("delete-user", rows=[place]))["plan"]
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(deletion, "caro")
        deletion = (await desk.open("delete-user", rows=[place]))["plan"]
        await desk.execute(deletion, "carol")
        assert not (await desk.hub.session.client.scram_users.describe()).found
        with pytest.raises(ClientError, match="mark one"):
            await desk.open("delete-user")

    drive(secured.open_bootstrap, job, ADMIN)


def test_denied_requests_over_time_with_their_reasons(secured: SecuredBroker) -> None:
    """If this fails, an engineer does not see that a client is denied access, since when, and why."""

    async def job(desk: Desk) -> None:
        for user, password in (("mallory", "wrong"), (ALICE, PASSWORD)):
            login = ClientLogin(Login("PLAIN", user, password))
            async with AdminClient(secured.bootstrap, timeout_s=10, login=login) as client:
                with pytest.raises(ClientError):
                    (await client.topics.describe(["bills"])).whole()
        state = await desk.state(
            "denied-requests", lambda state: {"mallory", f"User:{ALICE}"} <= set(str(state).split("'"))
        )
        rows = await desk.rows("denied-requests", lambda state: state["rows"], filter="bills")
        row = next(iter(rows.values()))
        assert (row["who"], row["what"]) == (f"User:{ALICE}", "describe topic:bills")
        assert row["why"] == "no ACL concerns the resource"
        links = [each["cells"][2].get("href", "") for each in state["rows"] if isinstance(each["cells"][2], dict)]
        assert any("resource=topic%3Abills" in link and "operation=describe" in link for link in links)
        chart = await desk.state("denied-requests-over-time", lambda state: all(map(sum, state["v"])), range="1h")
        assert [series["name"] for series in chart["series"]] == ["denied operations", "failed logins"]
        assert len(chart["t"]) == len(chart["v"][0])

    drive(secured.open_bootstrap, job, ADMIN)


def test_viewers_of_a_part_see_no_acls(secured: SecuredBroker) -> None:
    """If this fails, a viewer of some topics learns the names of all others, and their ACLs."""
    limited = seeing(VIEWER, topics=("orders*",), groups=())

    async def job(desk: Desk) -> None:
        for channel, hidden, params in (
            ("acls", acls.HIDDEN, {}),
            ("acl-explanation", acls.HIDDEN, ASKED),
            ("scram-users", scram_users.HIDDEN, {}),
            ("denied-requests", denied_requests.HIDDEN, {}),
        ):
            assert hidden in await desk.look(channel, **params).failed()
        for page in (acls, scram_users, denied_requests):
            assert page.HIDDEN in layout_of(desk, page.NAME)

    drive(secured.open_bootstrap, job, limited)

    async def acts(desk: Desk) -> None:
        for name in ("create-acl", "create-user"):
            with pytest.raises(ClientError):
                await desk.open(name)

    drive(secured.open_bootstrap, acts, limited)
    drive(secured.open_bootstrap, acts, replace(ADMIN, scope=limited.scope))
