"""Login and logout, as an attacker would try them."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlencode

import pytest

from dashboard.security import Role
from dashboard.security.login import FORM_BYTES_MAX
from dashboard.security.users import Busy
from tests.dashboard.security.kit import HTML, ORIGIN, PASSWORD, Dashboard, add_user

Make = Callable[..., Dashboard]
WRONG = "a wrong password"


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_a_login_leads_to_the_page_and_sets_the_cookie(dashboard: Dashboard) -> None:
    """If this fails, users cannot log in."""
    answer = dashboard.log_in("anna", next="/topics?range=1h")
    assert answer.status == 303
    assert answer.header("location") == "/topics?range=1h"
    cookie = answer.header("set-cookie")
    assert cookie.startswith("broker_dash_8050=")
    assert cookie.endswith("; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict")
    assert dashboard.security.audit.recent()[0].user == "anna"
    assert dashboard.security.audit.recent()[0].result == "done"


def test_over_tls_the_cookie_is_sent_over_tls_only(make: Make, users_path: Path) -> None:
    """If this fails, one request over http reveals the session."""
    dashboard = make(users_path=users_path, tls=True)
    form = urlencode({"name": "anna", "password": PASSWORD}).encode()
    headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", "https://127.0.0.1:8050")]
    cookie = dashboard.send("POST", "/login", headers, [form]).header("set-cookie")
    assert cookie.startswith("__Host-broker_dash_8050=")
    assert cookie.endswith("; Secure")


@pytest.mark.parametrize("name", ["anna", "nobody", "", "x" * 500, "<script>", "anna\r\nSet-Cookie: a=b"])
def test_a_failed_login_tells_nothing(dashboard: Dashboard, name: str) -> None:
    """If this fails, the response reveals which users exist, or shows typed text as HTML."""
    answer = dashboard.log_in(name, WRONG)
    assert answer.status == 401
    assert answer.header("set-cookie") == ""
    assert "The name or the password is wrong." in answer.text
    assert "<script>" not in answer.text
    assert WRONG not in answer.text
    entry = dashboard.security.audit.recent()[0]
    assert (entry.act, entry.result) == ("login", "refused: wrong name or password")
    assert entry.user == name.strip()[:65]
    assert WRONG not in dashboard.security.audit.path.read_text()


@pytest.mark.parametrize(
    "target", ["//evil.example", "/\\evil.example", "https://evil.example", "/x\r\nSet-Cookie: a=b"]
)
def test_a_login_leads_to_no_other_site(dashboard: Dashboard, target: str) -> None:
    """If this fails, a link to the login is a way to steal passwords, or to add headers."""
    answer = dashboard.log_in("anna", next=target)
    assert answer.status == 303
    assert answer.header("location") == "/"
    assert [name for name, _ in answer.headers].count("set-cookie") == 1
    shown = dashboard.send("GET", f"/login?{urlencode({'next': target})}")
    assert "evil" not in shown.text
    again = dashboard.send("GET", f"/login?{urlencode({'next': target})}", [dashboard.cookie("anna")])
    assert again.header("location") == "/"


def test_a_login_ends_the_session_before_it(dashboard: Dashboard) -> None:
    """If this fails, logging in as another user does not end the first session."""
    before = dashboard.cookie("ben")
    dashboard.post("/login", {"name": "anna", "password": PASSWORD}, [before])
    assert dashboard.send("GET", "/", [before]).status == 401


def test_failures_of_an_address_are_delayed_more_and_more(dashboard: Dashboard) -> None:
    """If this fails, passwords can be guessed at full speed."""
    for number in range(5):
        assert dashboard.log_in(f"user{number}", WRONG).status == 401
    waits = []
    for number in range(5, 15):
        refused = dashboard.log_in("anna")
        assert refused.status == 429, "even the right password must wait"
        waits.append(int(refused.header("retry-after")))
        assert f"Try again in {waits[-1]} s." in refused.text
        dashboard.clock.now_s += waits[-1]
        assert dashboard.log_in(f"user{number}", WRONG).status == 401
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert max(waits) <= 60
    assert waits[-1] >= 30
    # Other addresses are not affected.
    assert dashboard.log_in("anna", address="10.0.0.2").status == 303


def test_failures_of_a_user_are_delayed_from_all_addresses(dashboard: Dashboard) -> None:
    """If this fails, many machines guess the password of one user at full speed."""
    for number in range(5):
        assert dashboard.log_in("anna", WRONG, f"10.1.0.{number}").status == 401
    assert dashboard.log_in("anna", WRONG, "10.1.0.200").status == 429
    assert dashboard.log_in("ben", address="10.1.0.200").status == 303


def test_others_cannot_lock_a_user_out(dashboard: Dashboard) -> None:
    """If this fails, an attacker can lock a user out with failed logins."""
    assert dashboard.log_in("anna", address="10.2.0.1").status == 303
    for number in range(5):
        dashboard.log_in("anna", WRONG, f"10.1.0.{number}")
    assert dashboard.log_in("anna", address="10.2.0.2").status == 429
    assert dashboard.log_in("anna", address="10.2.0.1").status == 303


def test_the_addresses_of_one_ipv6_host_count_together(dashboard: Dashboard) -> None:
    """If this fails, one machine with IPv6 evades the limit by address."""
    for number in range(5):
        assert dashboard.log_in(f"user{number}", WRONG, f"2001:db8::{number}").status == 401
    assert dashboard.log_in("anna", WRONG, "2001:db8::ffff:1").status == 429
    assert dashboard.log_in("anna", WRONG, "2001:db8:0:1::1").status == 401


def test_clients_behind_a_proxy_count_by_themselves(make: Make, users_path: Path) -> None:
    """If this fails, one attacker behind a proxy locks out all its users, or evades the limit with a header."""
    dashboard = make(users_path=users_path, proxies=(ip_network("10.0.0.0/24"), ip_network("fd00::/8")))

    def attempt(forwarded: str, name: str = "nobody", password: str = "wrong", address: str = "10.0.0.5") -> int:
        form = {"name": name, "password": password}
        return dashboard.post("/login", form, [("x-forwarded-for", forwarded)], address).status

    # The client's own header values come before those that proxies add.
    for number in range(5):
        assert attempt(f"198.51.100.{number}, 203.0.113.9, 10.0.0.6", name=f"guess-{number}") == 401
    assert attempt("203.0.113.9, 10.0.0.6") == 429
    assert attempt("203.0.113.9", "anna", PASSWORD, "fd00::5") == 429
    assert attempt("203.0.113.10", "anna", PASSWORD) == 303
    assert dashboard.security.audit.recent(1)[0].address == "203.0.113.10"
    # Headers from other hosts than proxies are ignored, and so are values that are not addresses.
    for number in range(5):
        assert attempt(f"203.0.113.{20 + number}", name=f"other-{number}", address="192.0.2.1") == 401
    assert attempt("203.0.113.30", "anna", PASSWORD, "192.0.2.1") == 429
    assert attempt("203.0.113.11, unknown", "ben", PASSWORD) == 303
    assert dashboard.security.audit.recent(1)[0].address == "10.0.0.5"


def test_failures_are_forgotten(dashboard: Dashboard) -> None:
    """If this fails, a user who mistyped a password yesterday must wait today."""
    for _ in range(5):
        dashboard.log_in("anna", WRONG)
    dashboard.clock.now_s += 3_600
    for _ in range(4):
        assert dashboard.log_in("anna", WRONG).status == 401
    assert dashboard.log_in("anna").status == 303


def test_a_busy_dashboard_says_so(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a flood of logins counts as failures of users who were not checked."""

    async def busy(name: str, password: str) -> None:
        raise Busy

    assert dashboard.security.users is not None
    monkeypatch.setattr(dashboard.security.users, "verify", busy)
    for _ in range(10):
        answer = dashboard.log_in("anna")
        assert answer.status == 503
        assert answer.header("retry-after") == "5"
    monkeypatch.undo()
    assert dashboard.log_in("anna").status == 303


def test_an_unusable_users_file_is_reported(dashboard: Dashboard, users_path: Path) -> None:
    """If this fails, a broken file looks like wrong passwords."""
    users_path.write_text("[users")
    answer = dashboard.log_in("anna")
    assert answer.status == 503
    assert "Logins are not possible now" in answer.text
    assert str(users_path) not in answer.text


@pytest.mark.parametrize("body", [b"x" * (FORM_BYTES_MAX + 1), b"&".join(b"a=1" for _ in range(9))])
def test_other_forms_are_refused(dashboard: Dashboard, body: bytes) -> None:
    """If this fails, any client can make the dashboard parse large forms."""
    headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", ORIGIN)]
    assert dashboard.send("POST", "/login", headers, [body]).status == 400
    json = dashboard.send("POST", "/login", [("content-type", "application/json"), ("origin", ORIGIN)], [b"{}"])
    assert json.status == 400


def test_a_login_from_another_site_is_refused(dashboard: Dashboard) -> None:
    """If this fails, another site can log its visitors in as a user of its choice."""
    form = urlencode({"name": "eve", "password": PASSWORD}).encode()
    headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://evil.example")]
    assert dashboard.send("POST", "/login", headers, [form]).status == 403


def test_a_logout_needs_the_form_of_the_session(dashboard: Dashboard) -> None:
    """If this fails, other sites can end sessions, or a logout does not end the session."""
    cookie = dashboard.cookie("anna")
    token = re.search(r'name="csrf" value="([^"]+)"', dashboard.send("GET", "/logout", [cookie]).text)
    assert token is not None
    other = re.search(r'name="csrf" value="([^"]+)"', dashboard.send("GET", "/logout", [dashboard.cookie("anna")]).text)
    assert other is not None
    for wrong in ("", "x", other[1]):
        assert dashboard.post("/logout", {"csrf": wrong}, [cookie]).status == 403
        assert dashboard.send("GET", "/", [cookie]).status == 200
    answer = dashboard.post("/logout", {"csrf": token[1]}, [cookie])
    assert answer.status == 303
    assert answer.header("set-cookie").startswith("broker_dash_8050=; Max-Age=0")
    assert dashboard.send("GET", "/", [cookie]).status == 401
    dashboard.restart()
    assert dashboard.send("GET", "/", [cookie]).status == 401


def test_the_page_is_accessible_and_has_no_scripts(dashboard: Dashboard) -> None:
    """If this fails, people with a screen reader cannot log in, or the policy blocks the page."""
    for text in (dashboard.send("GET", "/login").text, dashboard.log_in("anna", WRONG).text):
        tags = Tags(text)
        assert tags.all("html")[0]["lang"] == "en"
        assert len(tags.all("title")) == len(tags.all("main")) == len(tags.all("h1")) == 1
        labelled = {label["for"] for label in tags.all("label")}
        shown = [each for each in tags.all("input") if each.get("type") != "hidden"]
        assert {each["id"] for each in shown} == labelled == {"name", "password"}
        assert [each["id"] for each in shown if "autofocus" in each] in (["name"], ["password"])
        assert not tags.all("script")
        assert not [name for _, attributes in tags.found for name in attributes if name.startswith("on")]
    failed = Tags(dashboard.log_in("anna", WRONG).text)
    assert [each for each in failed.all("p") if each.get("role") == "alert" and each["id"] == "problem"]
    assert all(each.get("aria-describedby") == "problem" for each in failed.all("input") if "type" not in each)


def test_without_users_there_is_no_login(make: Make) -> None:
    """If this fails, a dashboard on loopback shows a login that cannot succeed."""
    dashboard = make()
    assert dashboard.send("GET", "/login", [HTML]).header("location") == "/"
    assert dashboard.send("GET", "/logout", [HTML]).header("location") == "/"
    assert dashboard.log_in("anna").status == 404


def test_a_user_can_be_added_while_the_dashboard_runs(dashboard: Dashboard, users_path: Path) -> None:
    """If this fails, each new user needs a restart."""
    assert dashboard.log_in("zoe").status == 401
    add_user(users_path, "zoe", Role.OPERATOR)
    assert dashboard.log_in("zoe").status == 303
