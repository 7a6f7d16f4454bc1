"""Set the accounts of a dashboard to those on the standard input; prints the changes as JSON.

usage: accounts.py USERS_FILE [check]

The input is JSON: {"exclusive": false, "accounts": [{"name", "role", "password", ...}]}. With `check` nothing is
written. Role dashboard runs this with the Python of the release. Passwords are compared with the hashes in the file, so
that a second run changes nothing and no other copy of a password is on the host.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import argon2

from broker_cy.client.errors import ClientError
from dashboard.security.roles import Role, Scope
from dashboard.security.users import (
    User,
    check_name,
    hash_password,
    load_users,
    normal_password,
    remove_user,
    save_user,
)


def matches(user: User, password: str) -> bool:
    """Return whether the hash of the account is that of the password."""
    try:
        return argon2.PasswordHasher().verify(user.hash, normal_password(password))
    except argon2.exceptions.VerificationError:
        return False


def wanted_of(account: dict[str, Any]) -> tuple[str, Role, Scope, str]:
    """Return name, role, patterns and password of an account. Raises ValueError."""
    clusters, topics, groups = (tuple(account.get(kind) or ("*",)) for kind in ("clusters", "topics", "groups"))
    scope = Scope(clusters, topics, groups, bool(account.get("unmasked")))
    return check_name(account["name"]), Role.parse(account.get("role", "viewer")), scope, account["password"]


def reconcile(path: Path, given: dict[str, Any], *, is_check: bool) -> dict[str, list[str]]:
    """Return the names that were (or would be) added, changed and removed. Raises ClientError, ValueError."""
    users = load_users(path) if path.exists() else {}
    done: dict[str, list[str]] = {"added": [], "changed": [], "removed": []}
    for account in given["accounts"]:
        name, role, scope, password = wanted_of(account)
        there = users.get(name)
        if there is not None and (there.role, there.scope) == (role, scope) and matches(there, password):
            continue
        done["added" if there is None else "changed"].append(name)
        if not is_check:
            save_user(path, User(name, hash_password(password), role, scope), replace=True)
    if given["exclusive"]:
        done["removed"] = sorted(set(users) - {account["name"] for account in given["accounts"]})
        if not is_check:
            for name in done["removed"]:
                remove_user(path, name)
    return done


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        done = reconcile(Path(sys.argv[1]), json.load(sys.stdin), is_check=sys.argv[2:] == ["check"])
    except (ClientError, ValueError) as error:
        print(f"accounts of the dashboard: {error}", file=sys.stderr)
        return 2
    print(json.dumps(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
