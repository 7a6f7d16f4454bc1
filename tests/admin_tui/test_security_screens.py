"""The screens of ACLs, of users that log in with SCRAM, and of what was refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.security.sasl.exchange import Login
from tests.admin_tui.conftest import Terminal, drive
from tests.support.sasl_broker import ALICE, PASSWORD
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
    """If this fails, an engineer gives or takes other rights than he sees, or learns a wrong reason."""

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
        await terminal.shows("REFUSED: User:bob write topic:orders-1", "it is for READ")
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
    """If this fails, somebody cannot log in, still can, or reads a password over an engineer's shoulder."""

    async def login(password: str) -> None:
        credentials = ClientLogin(Login("SCRAM-SHA-512", "carol", password))
        async with AdminClient(secured.bootstrap, timeout_s=10, login=credentials) as client:
            await client.topics.list_all()

    async def job(terminal: Terminal) -> None:
        await terminal.command("users")
        await terminal.goes_to("users")
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
        await terminal.goes_to("users")
        await terminal.until(lambda: not terminal.app.screen.grid.rows, "no user")  # type: ignore[attr-defined]

    drive(secured.open_bootstrap, job, size=SIZE)


def test_refusals_are_shown_with_their_reason(secured: SecuredBroker) -> None:
    """If this fails, an engineer who is asked why somebody was refused has to read the logs of all brokers."""

    async def refused() -> None:
        for user, password in (("mallory", "wrong"), (ALICE, PASSWORD)):
            login = ClientLogin(Login("PLAIN", user, password))
            async with AdminClient(secured.bootstrap, timeout_s=10, login=login) as client:
                with pytest.raises(ClientError):
                    (await client.topics.describe(["orders"])).whole()

    async def job(terminal: Terminal) -> None:
        await refused()
        await terminal.command("refusals")
        await terminal.goes_to("refusals")
        await terminal.shows("mallory", f"User:{ALICE}", "describe topic:orders", "login PLAIN")
        screen = terminal.app.screen
        rows = screen.grid.view  # type: ignore[attr-defined]
        screen.grid.move_to(next(at for at, row in enumerate(rows) if row.who == f"User:{ALICE}"))  # type: ignore[attr-defined]
        await terminal.shows("because: no ACL concerns the resource", "Why, at that time")
        await terminal.press("x")
        await terminal.shows("By the ACLs of now", f"REFUSED: User:{ALICE} from 127.0.0.1 describe topic:orders")

    drive(secured.open_bootstrap, job, size=SIZE)


def test_read_only_refuses_changes(secured: SecuredBroker) -> None:
    """If this fails, --readonly protects topics, and not the rights."""

    async def job(terminal: Terminal) -> None:
        for view, keys in (("acls", ("c", "ctrl+d")), ("users", ("c", "e", "ctrl+d"))):
            await terminal.command(view)
            await terminal.goes_to(view)
            for key in keys:
                await terminal.press(key)
                assert view == terminal.app.screen.NAME  # type: ignore[attr-defined]

    drive(secured.open_bootstrap, job, size=SIZE, is_readonly=True)
