"""Session cookies: attacks on them, and the events that end a session."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from dashboard.security import sessions as module
from dashboard.security.roles import PASSWORD
from dashboard.security.sessions import LIFETIME_S, Sessions, load_key
from tests.dashboard.security.kit import Clock


def build(tmp_path: Path, clock: Clock | None = None, *, is_secure: bool = False, key: bytes = b"k" * 32) -> Sessions:
    return Sessions(key, tmp_path / "revoked", name="broker_dash", is_secure=is_secure, clock=clock or Clock())


def test_the_key_is_private_and_made_once(tmp_path: Path) -> None:
    """If this fails, other users of the machine can forge logins, or each restart ends all sessions."""
    path = tmp_path / "session.key"
    key = load_key(path)
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path) == key
    path.chmod(0o644)
    with pytest.raises(ClientError, match="chmod 600"):
        load_key(path)


def test_a_key_of_a_wrong_length_is_refused(tmp_path: Path) -> None:
    """If this fails, an empty key file makes every cookie forgeable."""
    path = tmp_path / "session.key"
    for content in (b"", b"k" * 31, b"k" * 33):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(ClientError):
            load_key(path)


def test_a_cookie_says_who_logged_in(tmp_path: Path) -> None:
    """If this fails, users do not stay logged in."""
    sessions = build(tmp_path)
    value, session = sessions.issue("anna", PASSWORD, "record")
    ticket = sessions.read(value)
    assert ticket is not None
    assert (ticket.name, ticket.login, ticket.session) == ("anna", PASSWORD, session)


def test_a_changed_cookie_is_refused(tmp_path: Path) -> None:
    """If this fails, a user can become another one."""
    sessions = build(tmp_path)
    value, _ = sessions.issue("eve", PASSWORD, "record")
    body, signature = value.split(".")
    fields = json.loads(base64.urlsafe_b64decode(body + "=="))
    fields[0] = "anna"
    forged = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
    for wrong in (
        f"{forged}.{signature}",
        f"{forged}.",
        f"{forged}",
        f"{body}.{signature[:-2]}",
        f"{body}.{signature}A",
        f"{body}.{signature}.",
        f".{signature}",
        "",
        ".",
        "\u00e4.\u00e4",
        "A" * 10_000,
    ):
        assert sessions.read(wrong) is None, wrong
    for index in range(len(value)):
        changed = value[:index] + ("A" if value[index] != "A" else "B") + value[index + 1 :]
        # The last base64 character has unused bits: if only these change, the content is the same.
        assert sessions.read(changed) is None or index in (len(body) - 1, len(value) - 1), index
    assert build(tmp_path, key=b"x" * 32).read(value) is None


def test_what_was_signed_for_a_form_is_no_cookie(tmp_path: Path) -> None:
    """If this fails, a token that pages contain can be used to log in."""
    sessions = build(tmp_path)
    value = sessions.signer.sign(b"another purpose\0", ["anna", PASSWORD, "", 1_700_000_000, "nonce", "record"])
    assert sessions.read(value) is None


def test_a_session_ends_after_its_time(tmp_path: Path) -> None:
    """If this fails, a stolen cookie is valid forever."""
    clock = Clock()
    sessions = build(tmp_path, clock)
    value, session = sessions.issue("anna", PASSWORD, "record")
    clock.now_s += LIFETIME_S - 1
    assert sessions.read(value) is not None
    clock.now_s += 1
    assert sessions.read(value) is None
    assert "12 h" in sessions.ended(session)


def test_a_session_from_the_future_is_refused(tmp_path: Path) -> None:
    """If this fails, setting the clock back prolongs sessions without limit."""
    clock = Clock()
    sessions = build(tmp_path, clock)
    value, _ = sessions.issue("anna", PASSWORD, "record")
    clock.now_s -= 3_600
    assert sessions.read(value) is None


def test_a_logout_holds_over_a_restart(tmp_path: Path) -> None:
    """If this fails, a stolen cookie works again after a restart, or a restart ends other sessions."""
    clock = Clock()
    sessions = build(tmp_path, clock)
    gone, session = sessions.issue("anna", PASSWORD, "record")
    kept, _ = sessions.issue("anna", PASSWORD, "record")
    sessions.revoke(session)
    assert sessions.read(gone) is None
    for _ in range(2):
        again = build(tmp_path, clock)
        assert again.read(gone) is None
        assert again.read(kept) is not None
    assert stat.S_IMODE((tmp_path / "revoked").stat().st_mode) == 0o600
    clock.now_s += LIFETIME_S
    build(tmp_path, clock)
    assert session.nonce not in (tmp_path / "revoked").read_text()


def test_too_many_logouts_end_all_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, logging in and out often enough makes an old session valid again."""
    monkeypatch.setattr(module, "REVOKED_MAX", 3)
    sessions = build(tmp_path)
    issued = [sessions.issue("anna", PASSWORD, "record") for _ in range(6)]
    for _, session in issued[:4]:
        sessions.revoke(session)
    for value, _ in issued:
        assert sessions.read(value) is None
        assert build(tmp_path).read(value) is None
    assert sessions.read(sessions.issue("anna", PASSWORD, "record")[0]) is not None


def test_a_cut_line_does_not_hinder_the_start(tmp_path: Path) -> None:
    """If this fails, a power loss during a logout keeps the dashboard from starting."""
    sessions = build(tmp_path)
    gone, session = sessions.issue("anna", PASSWORD, "record")
    sessions.revoke(session)
    with open(tmp_path / "revoked", "ab") as file:
        file.write(b"half-a-no")
    assert build(tmp_path).read(gone) is None


def test_a_logout_that_cannot_be_written_counts(tmp_path: Path) -> None:
    """If this fails, a full disk keeps users logged in."""
    sessions = build(tmp_path)
    value, session = sessions.issue("anna", PASSWORD, "record")
    (tmp_path / "revoked").unlink()
    (tmp_path / "revoked").mkdir()
    sessions.revoke(session)
    assert sessions.read(value) is None


def test_form_tokens_belong_to_one_session(tmp_path: Path) -> None:
    """If this fails, a page of one user can submit a form of another."""
    sessions = build(tmp_path)
    _, first = sessions.issue("anna", PASSWORD, "record")
    _, second = sessions.issue("anna", PASSWORD, "record")
    token = sessions.csrf_token(first)
    assert sessions.is_csrf_token(first, token)
    for wrong in ("", token[:-1], token + "A", sessions.csrf_token(second), "\ud800", "ä"):
        assert not sessions.is_csrf_token(first, wrong)


def test_cookies_are_bound_to_the_browser_and_the_site(tmp_path: Path) -> None:
    """If this fails, scripts can read the cookie, or other sites use it."""
    plain = build(tmp_path).cookie_header("value")
    assert plain == "broker_dash=value; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
    secure = build(tmp_path, is_secure=True)
    assert secure.cookie_header("v") == "__Host-broker_dash=v; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict; Secure"
    assert secure.clearing_header().startswith("__Host-broker_dash=; Max-Age=0; ")
