"""The guard, as an attacker would try it: origins, methods, paths, and targets of redirects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashboard.security.guard import Guard
from dashboard.security.targets import local_path
from tests.dashboard.security.kit import HOST, HTML, ORIGIN, PORT, Dashboard, Header, Make, run_socket, unused

# Origins


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("origin", "null")],
        [("origin", "")],
        [("origin", "http://evil.example")],
        [("origin", f"https://{HOST}")],
        [("origin", "http://127.0.0.1:8051")],
        [("origin", f"http://localhost:{PORT}")],
        [("origin", f"{ORIGIN}.evil.example")],
        [("origin", f"{ORIGIN}/")],
        [("origin", f"http://evil.example@{HOST}")],
        [("origin", ORIGIN), ("origin", "http://evil.example")],
        [("origin", f"{ORIGIN}, http://evil.example")],
        [("referer", f"{ORIGIN}/")],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "none")],
        [("origin", ORIGIN), ("sec-fetch-site", "cross-site")],
        [("origin", ORIGIN), ("sec-fetch-site", "same-site")],
        [("origin", "null"), ("sec-fetch-site", "same-origin")],
    ],
)
def test_forged_origins_are_refused(make: Make, headers: list[Header]) -> None:
    """If this fails, any web page can change the clusters of its visitors."""
    dashboard = make()
    answer = dashboard.send("POST", "/change", headers, [b"x"])
    assert answer.status == 403
    assert dashboard.results()[0] == f"refused: {answer.text.strip()}"
    # A socket needs an Origin in any case.
    (closed,) = run_socket(dashboard, headers, ["hello"])
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)


def test_the_own_origin_is_allowed(make: Make) -> None:
    """If this fails, no act works in the dashboard."""
    dashboard = make()
    for headers in ([("origin", ORIGIN)], [("sec-fetch-site", "same-origin")]):
        assert dashboard.send("POST", "/change", headers, [b"ab", b"c"]).text == "3 bytes"
    assert dashboard.send("POST", "/login", [("sec-fetch-site", "same-origin")], [b"x"]).status != 403
    tls = make(tls=True, state_directory=dashboard.config.state_directory.with_name("tls"))
    assert tls.send("POST", "/change", [("origin", f"https://{HOST}")], [b""]).status == 200
    assert tls.send("POST", "/change", [("origin", ORIGIN)], [b""]).status == 403


def test_other_sites_cannot_embed_or_read(make: Make) -> None:
    """If this fails, a web page can load data from a visitor's dashboard that no cookie protects."""
    dashboard = make()
    for site in ("cross-site", "same-site"):
        foreign = ("sec-fetch-site", site)
        script = [foreign, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")]
        frame = [foreign, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"), HTML]
        link = [foreign, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), HTML]
        assert dashboard.send("GET", "/", script).status == 403
        assert dashboard.send("GET", "/", frame).status == 403
        assert dashboard.send("GET", "/", link).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_are_refused(make: Make, method: str) -> None:
    """If this fails, a route answers methods that it was not designed for."""
    answer = make().send(method, "/change", [("origin", ORIGIN)])
    assert answer.status == 405
    assert answer.header("allow") == "GET, HEAD, POST, OPTIONS"


# Paths


@pytest.mark.parametrize(
    "target",
    [
        "/assets/../secret",
        "/assets/..",
        "/./x",
        "/assets/%2e%2e/secret",
        "/assets/%2E./secret",
        "/assets/..%2fsecret",
        "/assets%2fx",
        "/assets%2Fx",
        "/assets%5c..%5csecret",
        "/assets\\..\\secret",
        "/x%00.css",
        "/x%0d%0aSet-Cookie:a",
        "/%252e%252e/secret",
        "/%255c",
        "/x%zz",
        "/x%",
        "//evil.example",
        "/a//b",
        "/%ff",
        "/%c0%ae%c0%ae/x",
        "x",
        "*",
        "http://evil.example/",
        "/login/..%2ftopics",
        "/" + "x" * 4_096,
    ],
)
def test_path_tricks_are_refused(dashboard: Dashboard, target: str) -> None:
    """If this fails, a path that the guard considers public leads to a protected page or file."""
    assert dashboard.send("GET", target, [dashboard.cookie("anna")]).status == 400


def test_a_path_that_the_server_decoded_differently_is_refused(dashboard: Dashboard) -> None:
    """If this fails, the guard checks another path than the one that is routed."""
    assert dashboard.send("GET", b"/\xff\xfe").status == 400
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/../x",
        "raw_path": b"/healthz",
        "headers": [(b"host", HOST.encode())],
    }
    asyncio.run(dashboard.app(scope, unused, send))
    assert statuses[0] == 400


def test_the_state_of_the_server_is_no_login(dashboard: Dashboard) -> None:
    """If this fails, an identity left in the server's state logs every visitor in."""
    found: list[Any] = []

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["state"])

    state = {"identity": "anna", "other": 1}
    scope = {"type": "http", "method": "GET", "path": "/login", "headers": [(b"host", HOST.encode())], "state": state}
    asyncio.run(Guard(recording, dashboard.security)(scope, unused, unused))
    assert found == [{"other": 1}]
    assert state == {"identity": "anna", "other": 1}


def test_usual_paths_are_allowed(make: Make) -> None:
    """If this fails, groups with blanks or letters beyond ASCII have no page."""
    dashboard = make()
    for target in ("/group/a%20b", "/group/%C3%A4", "/group/100%25", "/topics/", "/a.b/..c", "/_dash-x?a=../..&b=%00"):
        assert dashboard.send("GET", target).status == 200, target
    assert dashboard.send("GET", "/?" + "x" * 20_000).status == 414


@pytest.mark.parametrize(
    "text",
    [
        "",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "http://evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "evil.example",
        "/x\r\nSet-Cookie: a=b",
        "/%2f/evil.example",
        "/%5cevil.example",
        "/../x",
        "/a/./b",
        "/login?next=/",
        "/logout",
        "/oidc/login",
        "/" + "x" * 3_000,
        "/\u2028x",
        " /x",
    ],
)
def test_other_sites_are_no_target_of_a_redirect(text: str) -> None:
    """If this fails, a link to the dashboard's login leads to a site that asks for the password again."""
    assert local_path(text) == "/"


def test_pages_are_targets_of_a_redirect() -> None:
    """If this fails, the login forgets the page."""
    assert local_path("/topics/orders?range=1h&q=a%20b#x") == "/topics/orders?range=1h&q=a%20b#x"
    assert local_path("/group/ä") == "/group/%C3%A4"
