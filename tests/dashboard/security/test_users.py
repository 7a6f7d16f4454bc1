"""The users file and the check of passwords."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from dashboard.security import users as module
from dashboard.security.roles import Role, Scope
from dashboard.security.users import (
    Busy,
    Users,
    check_name,
    hash_password,
    load_users,
    remove_user,
    save_user,
)
from tests.dashboard.security.kit import PASSWORD, add_user

HASH = hash_password(PASSWORD)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_user_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    """If this fails, a user has another role than the command gave."""
    path = tmp_path / "deep" / "users.toml"
    scope = Scope(("prod",), ('a"b\\c', "ordersü*"), ("g]1",), True)
    user = add_user(path, "anna.b_c-d@example", Role.OPERATOR, scope)
    assert load_users(path) == {user.name: user}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == ["users.toml", "users.toml.lock"]


def test_changes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """If this fails, one of two `user add` at the same time has no effect."""
    path = tmp_path / "users.toml"
    names = [f"user{number}" for number in range(24)]
    failures: list[Exception] = []

    def add(mine: list[str]) -> None:
        try:
            for name in mine:
                add_user(path, name)
        except ClientError as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(names[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(load_users(path)) == sorted(names)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    """If this fails, other users of the machine can read password hashes or add users."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")
    path.chmod(mode)
    with pytest.raises(ClientError, match=f"mode {mode:04o}.*chmod 600"):
        Users(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("users = 3", "users: 3 is not a table"),
        ("[users.anna\n", "not TOML"),
        ("[user.anna]\n", "users.toml:1: user: unknown key; did you mean 'users'?"),
        ('[users.anna]\nrole = "admin"\n', "users.anna.hash: is missing"),
        ('[users.anna]\nhash = "secret password"\nrole = "admin"\n', "users.anna.hash is not an argon2id hash"),
        (f'[users.anna]\nhash = "{HASH}"\n', "users.anna.role: is missing"),
        (f'[users.anna]\nhash = "{HASH}"\nrole = "root"\n', "the roles are viewer, operator, admin"),
        (
            f'[users.anna]\nhash = "{HASH}"\nrole = "admin"\nadmin = true\n',
            "users.toml:4: users.anna.admin: unknown key",
        ),
        (
            f'[users.anna]\nhash = "{HASH}"\nrole = "admin"\ntopics = "a"\n',
            "users.anna.topics: 'a' is not a list",
        ),
        (f'[users.anna]\nhash = "{HASH}"\nrole = "admin"\ntopics = [""]\n', "users.anna.topics: has an empty text"),
        (
            f'[users.anna]\nhash = "{HASH}"\nrole = "admin"\nunmasked = 1\n',
            "users.anna.unmasked: 1 is not allowed",
        ),
        (f'[users."an na"]\nhash = "{HASH}"\nrole = "admin"\n', "is not a user name"),
        (f'[users.anna]\nhash = "{HASH.replace("m=19456", "m=2000000000")}"\nrole = "admin"\n', "not an argon2id hash"),
        ("", "has no users"),
    ],
)
def test_an_invalid_file_is_refused_with_the_place(tmp_path: Path, text: str, expected: str) -> None:
    """If this fails, a mistake in the file gives a user a wrong role, or its error does not help."""
    path = written(tmp_path / "users.toml", text)
    with pytest.raises(ClientError) as caught:
        Users(path)
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert "secret password" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "ä", "x" * 65, '"', "a:b"])
def test_a_name_with_other_characters_is_refused(name: str) -> None:
    """If this fails, a name can forge a line of a log or a client id."""
    with pytest.raises(ValueError, match="is not a user name"):
        check_name(name)


@pytest.mark.parametrize("password", ["", "x" * 11, "x" * 1_025])
def test_a_password_of_a_wrong_length_is_refused(password: str) -> None:
    """If this fails, users can have passwords that are guessed quickly."""
    with pytest.raises(ValueError, match="12 to 1,024"):
        hash_password(password)


def test_what_exists_is_only_replaced_when_asked_for(tmp_path: Path) -> None:
    """If this fails, `user add` of an existing name takes over that user."""
    path = tmp_path / "users.toml"
    user = add_user(path, "anna")
    with pytest.raises(ClientError, match="user anna exists; --replace changes it"):
        save_user(path, user)
    assert save_user(path, user, replace=True)
    with pytest.raises(ClientError, match="unknown user 'ben'; known: anna"):
        remove_user(path, "ben")


def test_a_running_dashboard_sees_changes(tmp_path: Path) -> None:
    """If this fails, a removed user keeps access until a restart."""
    path = tmp_path / "users.toml"
    add_user(path, "anna", Role.ADMIN)
    add_user(path, "ben")
    users = Users(path)
    before = users.version
    found = users.get("anna")
    assert found is not None
    add_user(path, "anna", Role.VIEWER, replace=True)
    changed = users.get("anna")
    assert changed is not None
    assert changed.role is Role.VIEWER
    assert changed.fingerprint() != found.fingerprint()
    remove_user(path, "anna")
    assert users.get("anna") is None
    assert users.get("ben") is not None
    assert users.version > before


def _corrupt(path: Path) -> None:
    path.write_text("[users.anna")


def _publish(path: Path) -> None:
    path.chmod(0o644)


@pytest.mark.parametrize("damage", [_corrupt, Path.unlink, _publish])
def test_nobody_has_access_while_the_file_is_unusable(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    """If this fails, a user whose removal made the file invalid keeps access."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")
    users = Users(path)
    content = path.read_bytes()
    damage(path)
    assert users.get("anna") is None
    assert str(path) in users.problem
    written(path, content.decode())
    assert users.get("anna") is not None
    assert users.problem == ""


def test_passwords_are_checked(tmp_path: Path) -> None:
    """If this fails, users cannot log in, or can with a wrong password."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")
    save_user(path, module.User("zoe", hash_password("Zo\u00eb's password"), Role.VIEWER, Scope()))
    users = Users(path)
    anna = users.get("anna")
    for name, password, expected in (
        ("anna", PASSWORD, anna),
        ("anna", PASSWORD + " ", None),
        ("anna", "", None),
        ("Anna", PASSWORD, None),
        ("", PASSWORD, None),
        ("anna", PASSWORD + "x" * 5_000, None),
        ("anna", "\ud800" * 12, None),
        # The same password with a decomposed character.
        ("zoe", "Zoe\u0308's password", users.get("zoe")),
    ):
        assert asyncio.run(users.verify(name, password)) == expected
    users.close()


def test_an_unknown_name_costs_a_check_of_the_same_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the response time reveals which names exist."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")
    users = Users(path)
    seen: list[str] = []
    matches = Users._matches

    def recording(encoded: str, password: str) -> bool:
        seen.append(encoded)
        return matches(encoded, password)

    monkeypatch.setattr(users, "_matches", recording)
    for name in ("anna", "nobody"):
        assert asyncio.run(users.verify(name, "a wrong password")) is None
    assert len(seen) == 2
    real, dummy = ([len(part) for part in each.split("$")] for each in seen)
    assert real == dummy
    assert seen[0].split("$")[:4] == seen[1].split("$")[:4]
    users.close()


def test_checks_are_bounded(tmp_path: Path) -> None:
    """If this fails, a flood of logins exhausts the memory."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")
    users = Users(path)
    release = threading.Event()
    bound = module.CHECKS_AT_ONCE_MAX + module.CHECKS_WAITING_MAX

    def held(encoded: str, password: str) -> bool:
        release.wait(30)
        return False

    users._matches = held  # type: ignore[method-assign]

    async def flood() -> None:
        tasks = [asyncio.ensure_future(users.verify("anna", PASSWORD)) for _ in range(bound)]
        # All tasks have started after one turn of the loop.
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await users.verify("anna", PASSWORD)
        release.set()
        assert await asyncio.gather(*tasks) == [None] * bound

    asyncio.run(flood())
    users.close()


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a full disk during `user add` removes all users."""
    path = tmp_path / "users.toml"
    add_user(path, "anna")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ClientError, match="cannot be written: No space left"):
        add_user(path, "ben")
    monkeypatch.undo()
    assert list(load_users(path)) == ["anna"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["users.toml", "users.toml.lock"]
