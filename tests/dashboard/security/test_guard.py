"""The guard, as an attacker would try it: requests and sockets without login, hosts, sizes, headers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from dashboard.security import Role, Scope, Security, SecurityConfig
from dashboard.security.guard import BODY_BYTES_MAX, SOCKET_MESSAGE_BYTES_MAX, Guard
from dashboard.security.users import remove_user
from tests.dashboard.security.kit import HOST, HTML, ORIGIN, PORT, Dashboard, Make, add_user, run_socket, unused

# Login


@pytest.mark.parametrize("path", ["/", "/topics", "/_dash-layout", "/_dash-component-suites/x.js", "/assets/app.js"])
def test_nothing_is_open_without_a_login(dashboard: Dashboard, path: str) -> None:
    """If this fails, pages, data or scripts can be read without a login."""
    answer = dashboard.send("GET", path)
    assert answer.status == 401
    assert "log in" in answer.text
    assert answer.header("cache-control") == "no-store"
    assert dashboard.results()[0].startswith("refused: not logged in")


def test_what_is_open_without_a_login(dashboard: Dashboard) -> None:
    """If this fails, users cannot log in, or more than the login is accessible."""
    assert dashboard.send("GET", "/login").status == 200
    assert dashboard.send("GET", "/login.css").header("content-type") == "text/css; charset=utf-8"
    assert dashboard.send("GET", "/healthz").text == "ok"
    for path in ("/loginx", "/login/", "/login.css/x", "/healthz/x", "/logout", "/oidc", "/LOGIN", "/login.css.map"):
        assert dashboard.send("GET", path).status == 401, path
    assert dashboard.send("POST", "/healthz", [("origin", ORIGIN)]).status == 401


def test_a_page_redirects_to_the_login_and_back(dashboard: Dashboard) -> None:
    """If this fails, a shared link leads to the start page, or to another site."""
    answer = dashboard.send("GET", "/topics/orders?range=1h&cluster=a", [HTML])
    assert answer.status == 303
    assert answer.header("location") == "/login?next=%2Ftopics%2Forders%3Frange%3D1h%26cluster%3Da"
    assert dashboard.send("GET", "/", [HTML]).header("location") == "/login"
    assert dashboard.send("POST", "/change", [HTML, ("origin", ORIGIN)]).status == 401


def test_a_link_of_another_site_is_followed_with_the_cookie(dashboard: Dashboard) -> None:
    """If this fails, users who are logged in must log in again whenever they follow a shared link."""
    foreign = [HTML, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    answer = dashboard.send("GET", "/topics?q=%22%3E%3Cscript%3E", foreign)
    assert answer.status == 200
    assert 'content="0;url=/topics?q=%22%3E%3Cscript%3E"' in answer.text
    own = [HTML, ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    assert dashboard.send("GET", "/topics", own).status == 303


def test_the_identity_reaches_the_application(dashboard: Dashboard) -> None:
    """If this fails, a page shows data that only another user may see."""
    answer = dashboard.send("GET", "/", [dashboard.cookie("ben")], address="10.1.2.3")
    assert answer.text == '{"name":"ben","role":"operator","address":"10.1.2.3"}'


def test_a_foreign_cookie_of_the_same_name_does_not_log_out(dashboard: Dashboard) -> None:
    """If this fails, another program on the same host can log users out."""
    name, value = dashboard.cookie("ben")
    cookie = dashboard.security.sessions.cookie
    assert dashboard.send("GET", "/", [(name, f"{cookie}=forged; {value}")]).status == 200
    assert dashboard.send("GET", "/", [(name, f"{cookie}=forged")]).status == 401


def test_a_restart_keeps_logins(dashboard: Dashboard) -> None:
    """If this fails, all users have to log in again after each restart."""
    cookie = dashboard.cookie("ben")
    dashboard.restart()
    assert dashboard.send("GET", "/", [cookie]).status == 200


@pytest.mark.parametrize("change", ["removed", "role", "scope"])
def test_a_changed_user_is_logged_out(dashboard: Dashboard, users_path: Path, change: str) -> None:
    """If this fails, a removed user keeps access, or a user with a lower role keeps the old one."""
    cookie = dashboard.cookie("ben")
    identity = dashboard.security.identify([cookie[1].partition("=")[2]], "10.0.0.1")
    assert identity is not None
    assert dashboard.security.current(identity) == ""
    if change == "removed":
        remove_user(users_path, "ben")
    elif change == "role":
        add_user(users_path, "ben", Role.VIEWER, Scope(topics=("orders*",), groups=("billing*",)), replace=True)
    else:
        add_user(users_path, "ben", Role.OPERATOR, Scope(topics=("orders*",)), replace=True)
    assert dashboard.send("GET", "/", [cookie]).status == 401
    assert "changed or removed" in dashboard.security.current(identity)


def test_an_expired_session_ends(dashboard: Dashboard) -> None:
    """If this fails, a stolen cookie is valid forever."""
    cookie = dashboard.cookie("ben")
    dashboard.clock.now_s += 12 * 3_600 - 1
    assert dashboard.send("GET", "/", [cookie]).status == 200
    dashboard.clock.now_s += 1
    assert dashboard.send("GET", "/", [cookie]).status == 401


# Hosts, and dashboards without login


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.:{PORT}",
        f"127.0.0.2:{PORT}",
        f"127.0.0.1:{PORT}/",
        f"127.0.0.1:{PORT}@evil.example",
        f"user@127.0.0.1:{PORT}",
        f"127.0.0.1:{PORT}, evil.example",
        f"[::ffff:127.0.0.1]:{PORT}",
        f"127.0.0.1:0{PORT}x",
    ],
)
def test_dns_rebinding_is_refused(make: Make, host: str | None) -> None:
    """If this fails, a web page whose name resolves to 127.0.0.1 is an admin of the cluster."""
    answer = make().send("GET", "/", host=host)
    assert answer.status == 400
    assert "Host" in answer.text


@pytest.mark.parametrize("host", [HOST, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_loopback_needs_no_login(make: Make, host: str) -> None:
    """If this fails, the dashboard cannot be tried without configuration."""
    answer = make().send("GET", "/", host=host)
    assert answer.text == '{"name":"local","role":"admin","address":"127.0.0.1"}'


def test_configured_hosts_do_not_count_without_login(make: Make) -> None:
    """If this fails, a network name leads to a dashboard that makes every visitor an admin."""
    dashboard = make(hosts=("dash.example.com",), host="127.0.0.2")
    assert dashboard.send("GET", "/", host="dash.example.com").status == 400
    assert dashboard.send("GET", "/", host=f"127.0.0.2:{PORT}").status == 200


def test_a_second_host_is_refused(make: Make) -> None:
    """If this fails, one part of the program reads another host than the one that was checked."""
    assert make().send("GET", "/", [("host", "evil.example")]).status == 400


@pytest.mark.parametrize("name", ["X-Forwarded-For", "forwarded", "X-Real-IP", "via", "X-Forwarded-Host"])
def test_a_proxy_needs_a_login(make: Make, name: str) -> None:
    """If this fails, a proxy in front of a dashboard without users makes every visitor an admin."""
    answer = make().send("GET", "/", [(name.lower(), "10.0.0.1")])
    assert answer.status == 403
    assert "needs a login" in answer.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "dashboard.example.com", ""])
def test_beyond_loopback_a_login_is_required(tmp_path: Path, host: str) -> None:
    """If this fails, every host of the network has an admin's access."""
    with pytest.raises(ClientError, match="needs a login"):
        Security(SecurityConfig(host, PORT, tmp_path / "state"))
    assert not (tmp_path / "state").exists()


def test_configured_hosts_are_allowed(make: Make, users_path: Path) -> None:
    """If this fails, the dashboard cannot be reached by its name, or by any name."""
    dashboard = make(users_path=users_path, hosts=("dash.example.com", "other.example.com:444"), host="0.0.0.0")
    for host in ("dash.example.com", f"dash.example.com:{PORT}", "other.example.com:444", f"192.168.1.2:{PORT}"):
        assert dashboard.send("GET", "/login", host=host).status == 200, host
    for host in ("other.example.com", "dash.example.com:81", "example.com", "evil.example:8050", "192.168.1.2"):
        assert dashboard.send("GET", "/login", host=host).status == 400, host
    with pytest.raises(ClientError, match="is not a host: NAME or NAME:PORT"):
        Security(SecurityConfig("::1", PORT, dashboard.config.state_directory, hosts=("http://dash",)))


def test_one_dashboard_uses_a_state_directory(dashboard: Dashboard) -> None:
    """If this fails, two dashboards rotate the same audit log and lose entries."""
    with pytest.raises(ClientError, match="in use by another process"):
        Security(dashboard.config)


# Sizes


def test_large_bodies_are_refused(make: Make) -> None:
    """If this fails, one request can exhaust the memory."""
    dashboard = make()
    own = ("origin", ORIGIN)
    part = b"x" * (1 << 20)
    announced = dashboard.send("POST", "/change", [own, ("content-length", str(BODY_BYTES_MAX + 1))], [b"x"])
    assert announced.status == 413
    assert announced.header("connection") == "close"
    # Chunked: the size is not known in advance.
    streamed = dashboard.send("POST", "/change", [own], [part] * 9)
    assert streamed.status == 413
    assert dashboard.send("POST", "/change", [own], [part] * 8).text == f"{BODY_BYTES_MAX} bytes"
    for wrong in ("-1", "1e3", "+5", "٣", "9" * 30):
        length = wrong.encode().decode("latin-1")
        assert dashboard.send("POST", "/change", [own, ("content-length", length)], [b"x"]).status == 400
    assert any("the body has more than" in each for each in dashboard.results())


# Headers


def test_every_answer_has_the_headers(make: Make, users_path: Path) -> None:
    """If this fails, a mistake in a page becomes a vulnerability: scripts run, frames embed, caches keep data."""
    dashboard = make(users_path=users_path)
    dashboard.app = Guard(dashboard.inner, dashboard.security, ["sha256-abc+/="])
    cookie = dashboard.cookie("anna")
    for answer, status in (
        (dashboard.send("GET", "/", [cookie]), 200),
        (dashboard.send("GET", "/loose", [cookie]), 200),
        (dashboard.send("GET", "/fail", [cookie]), 500),
        (dashboard.send("GET", "/login"), 200),
        (dashboard.send("GET", "/"), 401),
        (dashboard.send("GET", "/", [HTML]), 303),
        (dashboard.send("GET", "/", host="evil.example"), 400),
        (dashboard.send("POST", "/change", [cookie]), 403),
    ):
        assert answer.status == status
        policy = answer.header("content-security-policy")
        assert "default-src 'none'; script-src 'self' 'sha256-abc+/='; " in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy
        # Only responses to requests with a valid host mention sockets of this host.
        assert (f"connect-src 'self' ws://{HOST};" in policy) is (status != 400)
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("x-frame-options") == "DENY"
        assert answer.header("referrer-policy") == "same-origin"
        assert answer.header("cross-origin-opener-policy") == "same-origin"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        assert "camera=()" in answer.header("permissions-policy")
        assert answer.header("cache-control") == "no-store"
        assert answer.header("server") == ""
        assert answer.header("strict-transport-security") == ""
        assert "secret of the program" not in answer.text
    assert dashboard.send("GET", "/assets/a.js", [cookie]).header("cache-control") == "public, max-age=60"
    assert dashboard.send("GET", "/assets/a.js").header("cache-control") == "no-store"
    with pytest.raises(ClientError, match="is not the hash of a script"):
        Guard(dashboard.inner, dashboard.security, ["'unsafe-inline'"])


def test_a_crash_before_an_answer_has_the_headers(make: Make) -> None:
    """If this fails, an internal error shows a traceback, or a response without the headers."""
    dashboard = make()

    async def crash(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a secret of the program")

    dashboard.app = Guard(crash, dashboard.security)
    answer = dashboard.send("GET", "/")
    assert answer.status == 500
    assert "secret" not in answer.text
    assert answer.header("x-content-type-options") == "nosniff"


def test_tls_is_kept(make: Make, users_path: Path) -> None:
    """If this fails, a network attacker leads browsers to http, or other programs on localhost become unreachable."""
    dashboard = make(users_path=users_path, tls=True, hosts=("dash.example.com",))
    answer = dashboard.send("GET", "/login", host="dash.example.com")
    assert answer.header("strict-transport-security") == "max-age=31536000"
    assert "wss://dash.example.com;" in answer.header("content-security-policy")
    assert dashboard.send("GET", "/login").header("strict-transport-security") == ""


# Sockets


def test_a_socket_needs_a_login(dashboard: Dashboard) -> None:
    """If this fails, live data can be read without a login."""
    own = ("origin", ORIGIN)
    assert [each["type"] for each in run_socket(dashboard, [own], ["hello"])] == ["websocket.close"]
    for path in ("/login", "/oidc/callback", "/healthz", "/../live"):
        assert [each["type"] for each in run_socket(dashboard, [own], ["hello"], path)] == ["websocket.close"]
    answers = run_socket(dashboard, [own, dashboard.cookie("ben")], ["hello"])
    assert [each["type"] for each in answers] == ["websocket.accept", "websocket.send"]
    assert answers[1]["text"] == "ben: 5"


def test_a_message_after_the_end_of_the_login_is_not_received(dashboard: Dashboard, users_path: Path) -> None:
    """If this fails, the dashboard acts on messages of a removed user."""
    received: list[Any] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        received.extend([await receive(), await receive(), await receive()])

    headers = [("origin", ORIGIN), dashboard.cookie("ben")]
    dashboard.app = Guard(listening, dashboard.security)
    run_socket(dashboard, headers, ["hello", lambda: remove_user(users_path, "ben"), "delete"])
    assert [each.get("text") for each in received] == ["hello", None, None]
    assert [each["type"] for each in received[1:]] == ["websocket.disconnect"] * 2


@pytest.mark.parametrize("is_late", [False, True])
def test_an_open_socket_ends_with_the_login(dashboard: Dashboard, users_path: Path, is_late: bool) -> None:
    """If this fails, a removed user watches the cluster for as long as the tab is open."""

    def remove() -> None:
        remove_user(users_path, "ben")

    def expire() -> None:
        dashboard.clock.now_s += 12 * 3_600

    headers = [("origin", ORIGIN), dashboard.cookie("ben")]
    answers = run_socket(dashboard, headers, ["hello", expire if is_late else remove, "again"])
    assert [each["type"] for each in answers] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert answers[-1]["code"] == 1008
    assert "the session has ended" in answers[-1]["reason"]


def test_a_socket_that_only_sends_ends_with_the_login(dashboard: Dashboard, users_path: Path) -> None:
    """If this fails, a removed user who sends nothing still receives frames."""
    sent: list[Any] = []

    async def frames(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "frame 1"})
        remove_user(users_path, "ben")
        for number in (2, 3):
            with pytest.raises(OSError, match=r"session has ended|closed"):
                await send({"type": "websocket.send", "text": f"frame {number}"})
        sent.append(await receive())

    headers = [("origin", ORIGIN), dashboard.cookie("ben")]
    dashboard.app = Guard(frames, dashboard.security)
    answers = run_socket(dashboard, headers, ["hello"])
    assert [each["type"] for each in answers] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert sent == [{"type": "websocket.disconnect", "code": 1008}]


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("x" * SOCKET_MESSAGE_BYTES_MAX, True),
        ("x" * (SOCKET_MESSAGE_BYTES_MAX + 1), False),
        ("ä" * (SOCKET_MESSAGE_BYTES_MAX // 2), True),
        ("ä" * (SOCKET_MESSAGE_BYTES_MAX // 2 + 1), False),
    ],
)
def test_large_messages_close_the_socket(make: Make, text: str, is_allowed: bool) -> None:
    """If this fails, a browser can make the dashboard parse any amount of data."""
    answers = run_socket(make(), [("origin", ORIGIN)], [text])
    assert answers[-1]["type"] == ("websocket.send" if is_allowed else "websocket.close")
    if not is_allowed:
        assert answers[-1]["code"] == 1009


def test_refusals_of_an_address_are_bounded_in_the_audit_log(make: Make) -> None:
    """If this fails, a flood of refused requests displaces all other entries of the audit log."""
    dashboard = make()
    for _ in range(500):
        assert dashboard.send("POST", "/change", address="10.9.9.9").status == 403
    assert len(dashboard.results()) == 20
    dashboard.send("POST", "/change", address="10.9.9.8")
    assert "(and 480 earlier denials that were not noted)" in dashboard.results()[0]


def test_unknown_types_of_requests_are_refused(make: Make) -> None:
    """If this fails, a new type of request passes unchecked."""
    with pytest.raises(ValueError, match="webtransport"):
        asyncio.run(make().app({"type": "webtransport"}, unused, unused))
