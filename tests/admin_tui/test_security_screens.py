"""The screens of ACLs, SCRAM users, quotas, delegation tokens and denials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from admin_tui.widgets.grid import Grid
from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.topics import NewTopic
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.metrics.events import entity_text
from broker_cy.security.sasl.exchange import Login
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, drive
from tests.support.sasl_broker import ADMIN_PASSWORD, ALICE, PASSWORD, client_settings
from tests.support.secured_broker import SecuredBroker

SIZE = (120, 40)
SECRET = "a-very-secret-password"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_acls_are_created_explained_and_deleted(secured: SecuredBroker) -> None:
    """If this fails, an engineer grants or revokes other ACLs than those shown, or the explanation of a denial is
    wrong.
    """

    async def job(terminal: Terminal) -> None:
        await terminal.command("acls")
        await terminal.goes_to("acls")
        await terminal.press("c")
        await terminal.fill(principal="bob", operation="reed", resource="topic:orders")
        await terminal.shows("'reed' is no operation")
        await terminal.fill(operation="idempotent-write")
        await terminal.shows("idempotent-write is no operation on a resource of type topic")
        await terminal.fill(operation="read", pattern="all that begin with it")
        await terminal.shows("acls create allow User:bob read topic:orders --prefixed --bootstrap")
        await terminal.press("right", "enter")
        await terminal.shows("created allow User:bob read topic:orders*")
        await terminal.until(lambda: terminal.app.screen.grid.rows, "the ACL")  # type: ignore[attr-defined]
        await terminal.shows("topic:orders*", "User:bob")
        await terminal.press("x")
        await terminal.fill(principal="bob", operation="read", resource="topic:orders-1")
        await terminal.shows("ALLOWED: User:bob read topic:orders-1", "because: allow User:bob read topic:orders*")
        await terminal.press("x")
        await terminal.fill(operation="write")
        await terminal.shows("DENIED: User:bob write topic:orders-1", "it is for READ")
        await terminal.press("c")
        await terminal.fill(operation="read", pattern="all that begin with it")
        await terminal.shows("this ACL exists already")
        await terminal.press("escape")
        await terminal.press("ctrl+d")
        await terminal.shows("deletes 1 ACL;", "acls delete --principal User:bob --resource topic:orders")
        await terminal.press("right", "enter")
        await terminal.goes_to("acls")
        await terminal.until(lambda: not terminal.app.screen.grid.rows, "no ACL")  # type: ignore[attr-defined]
        assert await terminal.client.acls.describe() == []

    drive(secured.open_bootstrap, job, size=SIZE)


def test_users_are_created_get_passwords_and_are_deleted(secured: SecuredBroker) -> None:
    """If this fails, a SCRAM user cannot log in, a deleted one still can, or a password is readable on the screen."""

    async def login(password: str) -> None:
        credentials = ClientLogin(Login("SCRAM-SHA-512", "carol", password))
        async with AdminClient(secured.bootstrap, timeout_s=10, login=credentials) as client:
            await client.topics.list_all()

    async def job(terminal: Terminal) -> None:
        await terminal.command("scram-users")
        await terminal.goes_to("scram-users")
        await terminal.press("c")
        await terminal.fill(user="carol", iterations="7", password=SECRET, again=SECRET)
        await terminal.shows("4096")
        await terminal.fill(iterations="4096", again="another")
        await terminal.shows("is another password")
        assert SECRET not in terminal.text()
        await terminal.fill(again=SECRET)
        await terminal.shows("users create carol --mechanism SCRAM-SHA-512 --iterations 4096 --password-file FILE")
        assert SECRET not in terminal.text()
        await terminal.press("right", "enter")
        await terminal.shows("set SCRAM-SHA-512 of user carol", "4,096")
        await login(SECRET)
        await terminal.until(lambda: terminal.app.screen.grid.rows, "the user")  # type: ignore[attr-defined]
        await terminal.press("e")
        await terminal.fill(password="another", again="another")
        await terminal.shows("users alter carol")
        await terminal.press("right", "enter")
        await terminal.hides("users alter carol")
        await login("another")
        with pytest.raises(ClientError):
            await login(SECRET)
        await terminal.press("ctrl+d")
        await terminal.shows("Type carol to confirm")
        await terminal.type("carol")
        await terminal.press("enter")
        await terminal.goes_to("scram-users")
        await terminal.until(lambda: not terminal.app.screen.grid.rows, "no user")  # type: ignore[attr-defined]

    drive(secured.open_bootstrap, job, size=SIZE)


def test_refusals_are_shown_with_their_reason(secured: SecuredBroker) -> None:
    """If this fails, the reason for a denial can only be found in the logs of all brokers."""

    async def refused() -> None:
        for user, password in (("mallory", "wrong"), (ALICE, PASSWORD)):
            login = ClientLogin(Login("PLAIN", user, password))
            async with AdminClient(secured.bootstrap, timeout_s=10, login=login) as client:
                with pytest.raises(ClientError):
                    (await client.topics.describe(["orders"])).whole()

    async def job(terminal: Terminal) -> None:
        await refused()
        await terminal.command("denied-requests")
        await terminal.goes_to("denied-requests")
        await terminal.shows("mallory", f"User:{ALICE}", "describe topic:orders", "login PLAIN")
        screen = terminal.app.screen
        rows = screen.grid.view  # type: ignore[attr-defined]
        screen.grid.move_to(next(at for at, row in enumerate(rows) if row.who == f"User:{ALICE}"))  # type: ignore[attr-defined]
        await terminal.shows("because: no ACL concerns the resource", "Why, at that time")
        await terminal.press("x")
        await terminal.shows("By the current ACLs", f"DENIED: User:{ALICE} from 127.0.0.1 describe topic:orders")

    drive(secured.open_bootstrap, job, size=SIZE)


def test_quotas_are_set_changed_explained_and_removed(secured: SecuredBroker) -> None:
    """If this fails, a quota is set for another client than the one shown, or the quota in effect is not shown."""

    async def job(terminal: Terminal) -> None:
        async def quotas() -> dict[str, dict[str, float]]:
            return {entity_text(each.entity): each.values for each in await terminal.client.quotas.describe({})}

        await terminal.command("quotas")
        await terminal.goes_to("quotas")
        await terminal.press("c")
        await terminal.fill(value="10M")
        await terminal.shows("whose quota? enter a user")
        await terminal.fill(user="bob", ip="10.0.0.1")
        await terminal.shows("a quota is of an address, or of users and client ids")
        await terminal.fill(ip="", value="much")
        await terminal.shows("'much' is not a size")
        await terminal.fill(value="10M")
        await terminal.shows("quotas set --user bob producer_byte_rate=10485760 --bootstrap", "= 10.0 MiB/s")
        await terminal.press("right", "enter")
        await terminal.shows("set producer_byte_rate of user bob")
        await terminal.press("c")
        await terminal.fill(user="default", client_id="default", key="request_percentage", value="20")
        await terminal.shows("quotas set --user default --client-id default request_percentage=20")
        await terminal.press("right", "enter")
        await terminal.hides("request_percentage=20")
        assert await quotas() == {
            "user bob": {"producer_byte_rate": 10485760.0},
            "user (default), client-id (default)": {"request_percentage": 20.0},
        }
        screen = terminal.app.screen
        grid = screen.query_one("#quotas", Grid)
        await terminal.until(lambda: len(grid.rows) == 2, "two quotas")
        grid.move_to(next(at for at, row in enumerate(grid.view) if row.entity == {"user": "bob"}))
        await terminal.press("e")
        await terminal.fill(value="1M")
        await terminal.shows("producer_byte_rate: 10.0 MiB/s -> 1.0 MiB/s")
        await terminal.press("right", "enter")
        await terminal.shows("1.0 MiB/s")
        await terminal.until(lambda: any(row.value == 1048576 for row in grid.rows), "the new value")
        await terminal.press("x")
        await terminal.fill(user="bob", client_id="batch")
        await terminal.shows(
            "user bob with client id batch: 2 of 5 quotas", "producer_byte_rate 1.0 MiB/s: set for user"
        )
        await terminal.shows("request_percentage 20%: set for user (default), client-id (default)")
        await terminal.press("space", "j", "space")
        await terminal.press("ctrl+d")
        await terminal.shows("removes 2 quotas", "(and 1 more)")
        await terminal.press("right", "enter")
        await terminal.goes_to("quotas")
        await terminal.until(lambda: not grid.rows, "no quota")
        assert await quotas() == {}

    drive(secured.open_bootstrap, job, size=SIZE)


def test_the_use_of_quotas_is_shown(secured: SecuredBroker) -> None:
    """If this fails, an engineer does not see which clients are throttled, and by how much."""

    async def job(terminal: Terminal) -> None:
        client = terminal.client
        await client.quotas.alter({"client-id": "greedy"}, {"producer_byte_rate": 1024.0})
        try:
            (await client.topics.create([NewTopic("throttled", 1)])).whole()
            async with AdminClient(secured.open_bootstrap, client_id="greedy") as other:
                await other.records.producer().send("throttled", [Record(value=b"x" * 200_000)])
            await terminal.command("quotas")
            await terminal.goes_to("quotas")
            grid = terminal.app.screen.query_one("#uses", Grid)
            await terminal.until(lambda: any(row.waits for row in grid.rows), "a wait")
            row = next(row for row in grid.rows if row.waits)
            assert (row.whose, row.key, row.limit) == ("client-id greedy", "producer_byte_rate", 1024.0)
            assert row.rate > row.limit
            assert row.waited_ms > 1_000
            await terminal.shows("client-id greedy", "1.0 KiB/s")
        finally:
            await client.quotas.alter({"client-id": "greedy"}, {"producer_byte_rate": None})

    drive(secured.open_bootstrap, job, size=SIZE)


def test_tokens_are_created_renewed_and_ended(secured: SecuredBroker) -> None:
    """If this fails, a job cannot get a token, a stolen token stays valid, or its secret is readable on the screen."""
    entry = ClusterEntry("c", parse_addresses(secured.bootstrap), secured=client_settings("admin", ADMIN_PASSWORD))

    async def login(token_id: str, hmac: str) -> None:
        credentials = ClientLogin(Login("SCRAM-SHA-256", token_id, hmac, is_token=True))
        async with AdminClient(secured.bootstrap, timeout_s=10, login=credentials) as client:
            await client.topics.list_all()

    async def job(terminal: Terminal) -> None:
        await terminal.command("delegation-tokens")
        await terminal.goes_to("delegation-tokens")
        await terminal.press("c")
        await terminal.fill(owner=ALICE, renewers="User:bob, admin", lifetime="soon")
        await terminal.shows("'soon' is not a duration")
        await terminal.fill(lifetime="7d")
        await terminal.shows(f"tokens create --owner {ALICE} --renewer bob --renewer admin --max-lifetime 604800000ms")
        await terminal.press("right", "enter")
        await terminal.shows("It is not shown again.", "HMAC of token")
        ((token, secret),) = (await terminal.client.tokens.describe()).values()
        assert (token.owner, token.requester, token.renewers) == (
            f"User:{ALICE}",
            "User:admin",
            ("User:bob", "User:admin"),
        )
        assert secret.password in "".join(line.strip(" │") for line in terminal.lines())
        # For 0.2 s after a press, Textual shows the button as active and ignores further presses.
        copy = terminal.app.screen.query_one("#do")
        await terminal.until(lambda: copy.has_focus and not copy.has_class("-active"), "the button Copy")
        await terminal.press("enter")
        await terminal.shows("Copied")
        assert terminal.app.clipboard == secret.password
        await login(token.token_id, secret.password)
        await terminal.press("escape")
        await terminal.goes_to("delegation-tokens")
        await terminal.hides("not shown again")
        grid = terminal.app.screen.grid  # type: ignore[attr-defined]
        await terminal.until(lambda: grid.rows, "the token")
        await terminal.shows(token.token_id, f"User:{ALICE}", f"created token {token.token_id}")
        assert secret.password not in terminal.text()
        assert secret.password not in repr(vars(terminal.app.session))
        await terminal.press("e")
        await terminal.fill(period="2h")
        await terminal.shows(f"tokens renew {token.token_id} --for 7200000ms", "7,200,000 ms from now")
        await terminal.press("right", "enter")
        await terminal.until(lambda: grid.rows[0].expires_ms != token.expires_ms, "another end")
        assert grid.rows[0].expires_ms < token.expires_ms
        await terminal.press("ctrl+d")
        await terminal.fill(period="")
        await terminal.shows(f"ends the token of User:{ALICE}", f"Type {ALICE} to confirm")
        await terminal.type(ALICE)
        await terminal.press("enter")
        await terminal.goes_to("delegation-tokens")
        await terminal.until(lambda: not grid.rows, "no token")
        with pytest.raises(ClientError):
            await login(token.token_id, secret.password)

    drive(entry, job, size=SIZE)


def test_read_only_refuses_changes(secured: SecuredBroker) -> None:
    """If this fails, --readonly protects topics, but not ACLs, users, quotas and tokens."""

    async def job(terminal: Terminal) -> None:
        for view in ("acls", "scram-users", "quotas", "delegation-tokens"):
            keys = ("c", "e", "ctrl+d")
            await terminal.command(view)
            await terminal.goes_to(view)
            for key in keys:
                await terminal.press(key)
                assert view == terminal.app.screen.NAME  # type: ignore[attr-defined]

    drive(secured.open_bootstrap, job, size=SIZE, is_readonly=True)
