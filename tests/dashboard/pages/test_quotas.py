"""The pages of quotas and of delegation tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.security.sasl.exchange import Login
from broker_cy.wire.records import Record
from dashboard.pages import delegation_tokens, quotas
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.sasl_broker import ADMIN_PASSWORD, ALICE, client_settings
from tests.support.secured_broker import SecuredBroker

QUOTA = {"user": "bob", "client_id": "", "ip": "", "key": "producer_byte_rate", "value": "10M"}
ASKED = {"user": "bob", "client_id": "batch", "ip": ""}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_quotas_are_set_changed_explained_and_removed(secured: SecuredBroker) -> None:
    """If this fails, a quota is set for another client than the one shown, or the quota in effect is not shown."""

    async def job(desk: Desk) -> None:
        assert [field["name"] for field in (await desk.open("set-quota"))["form"]["fields"]] == [*QUOTA]
        wrong = await desk.plan("set-quota", {**QUOTA, "value": "much"})
        assert "'much'" in wrong["problems"]["value"]
        plan = (await desk.plan("set-quota", QUOTA))["plan"]
        assert plan["command"].startswith("broker-cy quotas set --user bob producer_byte_rate=10485760")
        assert (await desk.execute(plan))["said"] == "set producer_byte_rate of user bob"
        rows = await desk.rows("quotas", lambda state: state["rows"])
        (place,) = rows
        assert rows[place] == {"whose": "user bob", "key": "producer_byte_rate", "value": "10.0 MiB/s"}
        change = (await desk.plan("change-quota", {"value": "1M"}, rows=[place]))["plan"]
        assert change["changes"] == ["producer_byte_rate: 10.0 MiB/s -> 1.0 MiB/s"]
        await desk.execute(change)
        # A user whose name means the default on a command line: the plan has no command.
        client = desk.hub.session.client
        await client.quotas.alter({"user": "default"}, {"request_percentage": 5.0})
        try:
            state = await desk.state("quotas", lambda state: state["total"] == 2)
            named = next(row["id"] for row in state["rows"] if "default" in row["id"])
            assert (await desk.plan("change-quota", {"value": "6"}, rows=[named]))["plan"]["command"] == ""
        finally:
            await client.quotas.alter({"user": "default"}, {"request_percentage": None})
        lines = await desk.rows("quota-effect", lambda state: state["total"] == 2, **ASKED)
        assert lines["1"]["line"].startswith("producer_byte_rate 1.0 MiB/s: set for user bob")
        assert "quota-effect" in layout_of(desk, "quotas", **ASKED)
        page = layout_of(desk, "quotas", **{**ASKED, "ip": "nowhere"})
        assert "nowhere" in page
        assert "quota-effect" not in page
        with pytest.raises(ClientError, match="ip: "):
            desk.look("quota-effect", **{**ASKED, "ip": "nowhere"})
        removal = (await desk.open("remove-quotas", rows=[place]))["plan"]
        assert removal["changes"] == ["producer_byte_rate of user bob: 1.0 MiB/s"]
        assert (await desk.execute(removal))["said"] == "removed 1 quota"
        assert await client.quotas.describe({}) == []
        with pytest.raises(ClientError, match="no quota is marked"):
            await desk.open("remove-quotas")
        assert [entry["act"] for entry in desk.security.audit.entries] == ["set-quota", "change-quota", "remove-quotas"]

    drive(secured.open_bootstrap, job)


def test_the_use_of_quotas_and_the_waits_are_shown(secured: SecuredBroker) -> None:
    """If this fails, users do not see which clients are throttled, or when they were."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        await client.quotas.alter({"client-id": "greedy"}, {"producer_byte_rate": 1024.0})
        try:
            (await client.topics.create([NewTopic("throttled", 1)])).whole()
            async with AdminClient(secured.open_bootstrap, client_id="greedy") as other:
                await other.records.producer().send("throttled", [Record(value=b"x" * 200_000)])
            state = await desk.state("quota-use", lambda state: any(each["cells"][6] != "0" for each in state["rows"]))
            cells = state["rows"][0]["cells"]
            assert (cells[0], cells[1], cells[4]) == ("client-id greedy", "producer_byte_rate", "1.0 KiB/s")
            assert cells[5]["tone"] == cells[7]["tone"] == "BAD"
            chart = await desk.state("throttle-time", lambda state: any(map(any, state["v"])))
            assert chart["unit"] == "ms/s"
        finally:
            await client.quotas.alter({"client-id": "greedy"}, {"producer_byte_rate": None})

    drive(secured.open_bootstrap, job)


def test_tokens_are_created_renewed_and_ended(secured: SecuredBroker) -> None:
    """If this fails, a job cannot get a token, a stolen token stays valid, or its secret is in a frame, a plan or the
    audit log.
    """
    values = {"owner": ALICE, "renewers": "admin", "lifetime": "7d"}

    async def login(token_id: str, hmac: str) -> None:
        credentials = ClientLogin(Login("SCRAM-SHA-512", token_id, hmac, is_token=True))
        async with AdminClient(secured.bootstrap, timeout_s=10, login=credentials) as client:
            await client.topics.list_all()

    async def job(desk: Desk) -> None:
        wrong = await desk.plan("create-token", {**values, "lifetime": "soon"})
        assert "'soon'" in wrong["problems"]["lifetime"]
        plan = (await desk.plan("create-token", values))["plan"]
        assert plan["command"].startswith(f"broker-cy tokens create --owner {ALICE} --renewer admin --max-lifetime")
        report = await desk.execute(plan)
        (token_id,) = (await desk.rows("delegation-tokens", lambda state: state["rows"])).keys()
        secret = report.pop("revealed")
        assert secret["what"] == f"HMAC of token {token_id}"
        await login(token_id, secret["value"])
        listed = await desk.state("delegation-tokens")
        kept = [report, listed, plan, desk.security.audit.entries, layout_of(desk, "delegation-tokens")]
        assert secret["value"] not in json.dumps(kept)
        assert secret["value"] not in repr([vars(desk.hub.session), vars(desk.acts)])
        cells = listed["rows"][0]["cells"]
        assert (cells[0], cells[2], cells[6]) == (f"User:{ALICE}", "User:admin", "User:admin")
        renewal = (await desk.plan("renew-token", {"period": "2h"}, rows=[token_id]))["plan"]
        said = await desk.execute(renewal)
        assert said["said"].startswith(f"token {token_id} counts until ")
        assert said["revealed"] is None
        await desk.state("delegation-tokens", lambda state: state["rows"][0]["cells"][4] != cells[4])
        end = (await desk.plan("expire-token", {"period": ""}, rows=[token_id]))["plan"]
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(end, "bob")
        end = (await desk.plan("expire-token", {"period": ""}, rows=[token_id]))["plan"]
        await desk.execute(end, ALICE)
        with pytest.raises(ClientError):
            await login(token_id, secret["value"])
        with pytest.raises(ClientError, match="mark one"):
            await desk.open("expire-token")

    drive(secured.bootstrap, job, secured=client_settings("admin", ADMIN_PASSWORD))


def test_a_connection_without_login_has_no_tokens(secured: SecuredBroker) -> None:
    """If this fails, the page of tokens looks broken for connections that cannot have tokens."""

    async def job(desk: Desk) -> None:
        looker = desk.look("delegation-tokens")
        assert "connected without a login" in await looker.failed()
        assert looker.is_absent

    drive(secured.open_bootstrap, job)


def test_viewers_of_a_part_see_and_change_nothing(secured: SecuredBroker) -> None:
    """If this fails, a viewer of some topics learns the users of all others, or an operator creates tokens."""
    limited = seeing(VIEWER, topics=("orders*",))

    async def looks(desk: Desk) -> None:
        for channel, params in (("quotas", {}), ("quota-use", {}), ("quota-effect", ASKED)):
            assert quotas.HIDDEN in await desk.look(channel, **params).failed()
        assert delegation_tokens.HIDDEN in await desk.look("delegation-tokens").failed()
        assert quotas.HIDDEN in layout_of(desk, "quotas")
        assert delegation_tokens.HIDDEN in layout_of(desk, "delegation-tokens")

    async def acts(desk: Desk) -> None:
        for name in ("set-quota", "change-quota", "remove-quotas", "create-token", "renew-token", "expire-token"):
            with pytest.raises(ClientError):
                await desk.open(name)

    settings = client_settings("admin", ADMIN_PASSWORD)
    drive(secured.bootstrap, looks, limited, secured=settings)
    drive(secured.bootstrap, acts, OPERATOR, secured=settings)
    drive(secured.bootstrap, acts, replace(ADMIN, scope=limited.scope), secured=settings)
    drive(secured.bootstrap, acts, is_readonly=True, secured=settings)
