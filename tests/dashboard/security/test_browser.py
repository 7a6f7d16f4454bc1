"""Login in a real Chromium, with its handling of cookies, policies and redirects."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page

from dashboard.security import OidcConfig
from dashboard.security.users import remove_user
from tests.dashboard.security.kit import PASSWORD, add_user
from tests.dashboard.security.provider import Provider, config
from tests.dashboard.security.server import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as running:
        yield running


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a new profile; the test fails on any message on its console."""
    context = chromium.new_context()
    found = context.new_page()
    messages: list[str] = []
    found.on("console", lambda message: messages.append(message.text))
    yield found
    context.close()
    assert messages == []


class OtherSite:
    """Another site, localhost instead of 127.0.0.1, with a page that the test provides."""

    def __init__(self) -> None:
        self.html = ""
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = site.html.encode() if self.path == "/" else b""
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://localhost:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def other_site() -> Iterator[OtherSite]:
    site = OtherSite()
    yield site
    site.server.shutdown()
    site.server.server_close()


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_login_and_logout(server: Server, page: Page) -> None:
    """If this fails, users cannot log in with a browser: it does not send the form, or the cookie."""
    page.goto(f"{server.origin}/topics?range=1h")
    assert page.url == f"{server.origin}/login?next={quote('/topics?range=1h', safe='')}"
    assert page.get_by_label("Name").evaluate("element => element === document.activeElement")
    log_in(page)
    page.wait_for_url(f"{server.origin}/topics?range=1h")
    page.get_by_text('"name":"anna"').wait_for()
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    page.goto(f"{server.origin}/logout")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{server.origin}/login")
    assert page.context.cookies() == []


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_is_accessible(server: Server, chromium: Browser, scheme: str) -> None:
    """If this fails, people with a screen reader or weak eyes cannot log in."""
    context = chromium.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    for number in range(2):
        page.goto(f"{server.origin}/login")
        if number:
            log_in(page, "a wrong password")
            page.get_by_role("alert").get_by_text("The name or the password is wrong.", exact=True).wait_for()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    context.close()


@pytest.mark.full
def test_a_link_of_another_site_keeps_the_login(server: Server, page: Page, other_site: OtherSite) -> None:
    """If this fails, users who are logged in must log in again whenever they follow a shared link."""
    other_site.html = f'<link rel="icon" href="data:,"><a href="{server.origin}/topics?range=1h">link</a>'
    page.goto(other_site.url)
    page.get_by_role("link").click()
    page.wait_for_url(f"{server.origin}/login**")
    log_in(page)
    page.goto(other_site.url)
    page.get_by_role("link").click()
    page.wait_for_url(f"{server.origin}/topics?range=1h")
    page.get_by_text('"name":"anna"').wait_for()


def test_another_site_can_do_nothing(server: Server, chromium: Browser, other_site: OtherSite) -> None:
    """If this fails, any site acts in the name of a user who visits it."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{server.origin}/login")
    log_in(page)
    other_site.html = f'<form method="post" action="{server.origin}/change"><button>Win</button></form>'
    page.goto(other_site.url)
    socket = f"ws://127.0.0.1:{server.port}/live"
    code = page.evaluate(
        "url => new Promise(done => { new WebSocket(url).onclose = event => done(event.code) })", socket
    )
    assert code == 1006
    with page.expect_navigation() as navigation:
        page.get_by_role("button").click()
    response = navigation.value
    assert response is not None
    assert response.status == 403
    context.close()


@pytest.mark.full
def test_a_removed_user_loses_the_socket(server: Server, page: Page) -> None:
    """If this fails, the content policy blocks the live socket, or a removed user keeps it."""
    page.goto(f"{server.origin}/login")
    log_in(page)
    # Requests that the page still has open would be refused below.
    page.wait_for_load_state("networkidle")
    socket = f"ws://127.0.0.1:{server.port}/live"
    page.evaluate(
        """url => new Promise(done => {
            window.live = new WebSocket(url);
            window.live.onclose = event => { window.code = event.code };
            window.live.onmessage = event => done(event.data);
            window.live.onopen = () => window.live.send("hello");
        })""",
        socket,
    )
    add_user(server.users_path, "ben")
    remove_user(server.users_path, "anna")
    page.evaluate("() => window.live.send('hello')")
    page.wait_for_function("() => window.code === 1008")


@pytest.mark.full
def test_a_login_through_a_provider_of_another_site(tmp_path: Path, page: Page) -> None:
    """If this fails, browsers do not send the cookies with the provider's response, and the login never completes."""
    with Provider() as provider:

        def configured(origin: str) -> OidcConfig:
            return config(tmp_path, provider, redirect_url=f"{origin}/oidc/callback")

        with Server(tmp_path, configured) as server:
            provider.now_s = server.dashboard.clock
            page.goto(f"{server.origin}/topics?range=1h")
            page.get_by_role("link", name=f"Log in with localhost:{provider.port}").click()
            page.wait_for_url(f"{server.origin}/topics?range=1h")
            page.get_by_text('"name":"olga"').wait_for()
            assert len(page.context.cookies(server.origin)) == 1
            # Open connections of the browser would keep the servers from exiting.
            page.goto("about:blank")
