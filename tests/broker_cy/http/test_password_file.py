"""Files of users, in the forms of Jetty's PropertyFileLoginModule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.logins import User
from broker_cy.http.password_file import LOOK_S, PasswordFile

# Texts of Jetty's own documentation.
OBF = "OBF:1vny1zlo1x8e1vnw1vn61x8g1zlu1vn4"
OBF_PASSWORD = "storepwd"
MD5 = "MD5:5f4dcc3b5aa765d61d8327deb882cf99"


class Rig:
    def __init__(self, path: Path, *lines: str) -> None:
        self.path = path
        self.now_s = 0.0
        self.write(*lines)
        self.file = PasswordFile(str(path), lambda: self.now_s)

    def write(self, *lines: str) -> None:
        self.path.write_text("\n".join(lines))

    def check(self, name: str, password: str) -> User | None:
        self.file.version()
        return asyncio.run(self.file.check(name, password))


def test_the_forms_of_passwords(tmp_path: Path) -> None:
    """If this fails, users of Confluent's registry cannot log in to this one, or with another password."""
    rig = Rig(tmp_path / "users", "alice: se:cret,admin, reader", f"bob={MD5},reader", f"carol {OBF}", "dave: ü")
    assert rig.check("alice", "se:cret") == User("alice", frozenset({"admin", "reader"}))
    assert rig.check("bob", "password") == User("bob", frozenset({"reader"}))
    assert rig.check("carol", OBF_PASSWORD) == User("carol")
    assert rig.check("dave", "ü") == User("dave")
    for name, password in (
        ("alice", "secret"),
        ("alice", ""),
        ("bob", MD5),
        ("bob", MD5.removeprefix("MD5:")),
        ("carol", OBF),
        ("nobody", ""),
        ("nobody", "password"),
    ):
        assert rig.check(name, password) is None, name


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "it has no users"),
        ("alice:", "the password of 'alice' is empty"),
        ("alice: ,admin", "the password of 'alice' is empty"),
        ("alice: CRYPT:usjRS48E8ZADM", "CRYPT, which checks eight characters"),
        ("alice: MD5:abc", "is no MD5 in 32 hexadecimal digits"),
        ("alice: MD5:zz4dcc3b5aa765d61d8327deb882cf99", "is no MD5 in 32 hexadecimal digits"),
        ("alice: OBF:???", "is not in the form OBF"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, line: str, part: str) -> None:
    """If this fails, a program starts with a user whom a wrong password, or none, lets in."""
    with pytest.raises(ConfigError, match=part):
        Rig(tmp_path / "users", line)


def test_changes_count_at_once_and_a_broken_file_lets_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a removed user keeps access until a restart, or because the file has a mistake."""
    rig = Rig(tmp_path / "users", "alice: one", "bob: two")
    before = rig.file.version()
    rig.write("bob: two and more")
    rig.now_s += LOOK_S
    assert rig.file.version() != before
    assert rig.check("alice", "one") is None
    assert rig.check("bob", "two and more") == User("bob")
    rig.write("bob: CRYPT:x")
    rig.now_s += LOOK_S
    assert rig.check("bob", "two and more") is None
    assert "every login fails" in caplog.text
    rig.path.unlink()
    rig.now_s += LOOK_S
    assert rig.check("bob", "two and more") is None
    rig.write("bob: again")
    rig.now_s += LOOK_S
    assert rig.check("bob", "again") == User("bob")


def test_a_file_that_others_can_read_is_noticed(tmp_path: Path) -> None:
    """If this fails, passwords lie open without a warning."""
    rig = Rig(tmp_path / "users", "alice: one")
    rig.path.chmod(0o640)
    assert not rig.file.is_open_to_others
    rig.path.chmod(0o644)
    assert rig.file.is_open_to_others
