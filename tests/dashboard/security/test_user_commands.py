"""`broker-dash user`: its output and exit codes; no password is lost or shown."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dashboard.security.roles import Role, Scope
from dashboard.security.user_commands import command
from dashboard.security.users import Users, load_users
from tests.dashboard.security.kit import PASSWORD, add_user

RUN = "from dashboard.security.user_commands import command; command()"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.toml"


def run(path: Path, *arguments: str, stdin: str = PASSWORD + "\n") -> Result:
    return CliRunner().invoke(command, [*arguments, "--users", str(path)], input=stdin)


def test_add_writes_what_was_given(path: Path) -> None:
    """If this fails, a user has another role than intended, or cannot log in."""
    options = ("--role", "operator", "--topics", "orders*, pay*", "--groups", "b?", "--clusters", "prod", "--unmasked")
    result = run(path, "add", "anna", *options, "--password-stdin")
    assert result.exit_code == 0
    assert result.stdout == f"added user anna (operator) in {path}\n"
    user = load_users(path)["anna"]
    assert (user.role, user.scope) == (Role.OPERATOR, Scope(("prod",), ("orders*", "pay*"), ("b?",), True))
    users = Users(path)
    assert asyncio.run(users.verify("anna", PASSWORD)) == user
    users.close()
    assert PASSWORD not in path.read_text()


def test_by_default_a_user_only_looks(path: Path) -> None:
    """If this fails, a forgotten option lets a user change clusters or see hidden fields."""
    assert run(path, "add", "anna", "--password-stdin").exit_code == 0
    user = load_users(path)["anna"]
    assert (user.role, user.scope) == (Role.VIEWER, Scope())
    assert not user.scope.unmasked


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (("add", "a b"), PASSWORD, "'a b' is not a user name"),
        (("add", "anna", "--role", "root"), PASSWORD, "the roles are viewer, operator, admin"),
        (("add", "anna", "--topics", ","), PASSWORD, "patterns separated by commas are expected"),
        (("add", "anna", "--groups", "x" * 257), PASSWORD, "1 to 256 characters"),
        (("add", "anna"), "short\n", "the password has 5 characters: 12 to 1,024 are allowed"),
        (("add", "anna"), "x" * 1_025, "12 to 1,024 are allowed"),
        (("add", "anna"), "", "the password has 0 characters"),
        (("add", "ben"), PASSWORD, "user ben exists; --replace changes it"),
        (("add", "anna", "--password", "x"), "", "No such option"),
    ],
)
def test_wrong_values_change_nothing(path: Path, arguments: tuple[str, ...], stdin: str, expected: str) -> None:
    """If this fails, a mistake changes the access of users, or its message does not help."""
    add_user(path, "ben")
    before = path.read_bytes()
    result = run(path, *arguments, "--password-stdin", stdin=stdin)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert path.read_bytes() == before


def test_without_a_terminal_the_password_must_be_given(path: Path) -> None:
    """If this fails, a script hangs at an invisible prompt."""
    result = run(path, "add", "anna")
    assert result.exit_code == 2
    assert "--password-stdin" in result.stderr
    assert not path.exists()


def test_the_prompt_does_not_show_the_password(path: Path) -> None:
    """If this fails, the password is on the screen, or two different ones are accepted."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "add", "anna", "--users", str(path)], stdin=other, stdout=other, stderr=other
    )
    os.close(other)
    seen = b""
    for prompt, answer in ((b"Password: ", PASSWORD), (b"confirmation: ", PASSWORD)):
        while not seen.endswith(prompt):
            seen += os.read(main, 1_000)
        os.write(main, answer.encode() + b"\n")
    try:
        while part := os.read(main, 1_000):
            seen += part
    except OSError:
        # The other side of a pseudo-terminal was closed.
        pass
    os.close(main)
    assert process.wait(30) == 0
    assert b"added user anna" in seen
    assert PASSWORD.encode() not in seen


def test_replace_changes_a_user(path: Path) -> None:
    """If this fails, a role or a password cannot be changed."""
    add_user(path, "anna", Role.ADMIN)
    result = run(path, "add", "anna", "--replace", "--password-stdin")
    assert result.stdout == f"changed user anna (viewer) in {path}\n"
    assert load_users(path)["anna"].role is Role.VIEWER


def test_list_shows_users_without_hashes(path: Path) -> None:
    """If this fails, an admin cannot list the users, or the hashes are in a terminal's history."""
    add_user(path, "ben", Role.OPERATOR, Scope(topics=("b", "a")))
    add_user(path, "anna", Role.ADMIN, Scope(unmasked=True))
    lines = run(path, "list").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "ROLE", "CLUSTERS", "TOPICS", "GROUPS", "UNMASKED"],
        ["anna", "admin", "*", "*", "*", "yes"],
        ["ben", "operator", "*", "a,b", "*", "no"],
    ]
    documents = json.loads(run(path, "list", "--json").stdout)
    assert [each["name"] for each in documents] == ["anna", "ben"]
    assert documents[1] == {
        "name": "ben",
        "role": "operator",
        "clusters": ["*"],
        "topics": ["a", "b"],
        "groups": ["*"],
        "unmasked": False,
    }


def test_remove_asks_first(path: Path) -> None:
    """If this fails, users are removed by accident, or not at all."""
    add_user(path, "anna")
    add_user(path, "ben")
    refused = run(path, "remove", "anna")
    assert refused.exit_code == 4
    assert "add --yes. Nothing was changed." in refused.stderr
    assert run(path, "remove", "anna", "--yes").stdout == f"removed user anna; 1 user left in {path}\n"
    assert list(load_users(path)) == ["ben"]
    unknown = run(path, "remove", "anna", "--yes")
    assert unknown.exit_code == 2
    assert "unknown user 'anna'; known: ben" in unknown.stderr


def test_results_and_errors_as_json(path: Path) -> None:
    """If this fails, a program that manages users has to parse texts for people."""
    added = run(path, "add", "anna", "--role", "admin", "--password-stdin", "--json")
    assert json.loads(added.stdout) == {"name": "anna", "role": "admin", "changed": False, "file": str(path)}

    def reason(code: int, *arguments: str) -> str:
        result = run(path, *arguments, "--json")
        assert result.exit_code == code
        return str(json.loads(result.stderr)["error"]["reason"])

    assert "anna" in reason(2, "add", "anna", "--password-stdin")
    assert "add --yes" in reason(4, "remove", "anna")
    assert "unknown user 'ben'" in reason(2, "remove", "ben", "--yes")
    removed = run(path, "remove", "anna", "--yes", "--json")
    assert json.loads(removed.stdout) == {"removed": "anna", "users_left": 0, "file": str(path)}


def test_a_file_that_others_can_read_is_refused(path: Path) -> None:
    """If this fails, all users of the machine can read the hashes."""
    add_user(path, "anna")
    path.chmod(0o644)
    for arguments in (("list",), ("remove", "anna", "--yes"), ("add", "ben", "--password-stdin")):
        result = run(path, *arguments)
        assert result.exit_code == 2
        assert "chmod 600" in result.stderr


def test_a_missing_file_is_reported(path: Path) -> None:
    """If this fails, a wrong path looks like a dashboard without users."""
    assert "cannot be read: No such file" in run(path, "list").stderr


def test_two_commands_at_once_lose_nothing(path: Path) -> None:
    """If this fails, one of two users that were added at the same time is missing."""
    names = [f"user{number}" for number in range(4)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, "add", name, "--password-stdin", "--users", str(path)], stdin=subprocess.PIPE
        )
        for name in names
    ]
    for process in processes:
        process.communicate(f"{PASSWORD}\n".encode(), 60)
    assert [process.returncode for process in processes] == [0] * len(names)
    assert sorted(load_users(path)) == names
