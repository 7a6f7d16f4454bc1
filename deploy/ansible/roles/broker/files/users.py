"""On one host of the cluster: sets users and their ACLs to those of the inventory, with the commands of broker-cy.

Reads {"command", "users", "admin", "passwords", "authorizer", "check"} as JSON on the standard input, and prints
{"changed": [..]}. With "check" nothing is changed. Users that are not in the inventory, and the ACLs of users without
`acls`, are not changed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

# The cluster of the file that logs in as the node itself: it needs no password, so a wrong password can be replaced.
CLUSTER = "node"
TIME_LIMIT_S = 60
AT_ONCE = 2
EXIT_REFUSED = 1


class Acl(NamedTuple):
    permission: str
    operation: str
    resource: str
    pattern: str
    host: str


class Commands:
    """broker-cy with the cluster of this host."""

    def __init__(self, path: str) -> None:
        self._path = path

    def run(
        self, arguments: Sequence[str], *, stdin: str = "", cluster: str = CLUSTER, file: str = ""
    ) -> tuple[int, str, str]:
        environment = {**os.environ, **({"BROKER_CY_CLUSTERS": file} if file else {})}
        command = [self._path, *arguments, "--cluster", cluster, "--json", "--timeout", "20"]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False, env=environment
        )
        return done.returncode, done.stdout, done.stderr.strip()

    def must(self, arguments: Sequence[str], *, stdin: str = "") -> Any:
        code, output, problem = self.run(arguments, stdin=stdin)
        if code != 0:
            raise SystemExit(f"broker-cy {' '.join(arguments)} failed with {code}: {problem}")
        return json.loads(output) if output.strip() else None


def word(name: str) -> str:
    return name.lower().replace("_", "-")


def resource_of(found: dict[str, Any]) -> str:
    kind = word(found["resource_type"])
    return kind if kind == "cluster" else f"{kind}:{found['name']}"


def there_of(found: Sequence[dict[str, Any]], principal: str) -> set[Acl]:
    return {
        Acl(
            word(each["permission"]),
            word(each["operation"]),
            resource_of(each),
            word(each["pattern_type"]),
            each["host"],
        )
        for each in found
        if each["principal"] == principal
    }


def wanted_of(user: dict[str, Any]) -> set[Acl]:
    found = set()
    for acl in user["acls"]:
        pattern = word(acl.get("pattern", "literal"))
        if pattern not in ("literal", "prefixed"):
            raise SystemExit(f"broker_users: {user['name']}: pattern {pattern}: allowed are literal and prefixed")
        for operation, host in itertools.product(acl["operations"], acl.get("hosts", ["*"])):
            permission = word(acl.get("permission", "allow"))
            found.add(Acl(permission, word(operation), acl["resource"], pattern, host))
    return found


def login_fails(commands: Commands, file: str, number: int, name: str) -> bool:
    code, _, problem = commands.run(["cluster", "apis"], cluster=f"user-{number}", file=file)
    if code not in (0, EXIT_REFUSED):
        raise SystemExit(f"user {name} cannot be tried: {problem}")
    return code == EXIT_REFUSED


def wrong_passwords(commands: Commands, names: Sequence[str], passwords: dict[str, str]) -> set[str]:
    """Return the users who cannot log in with their configured password; salted passwords cannot be compared."""
    own = tomllib.loads(Path(os.environ["BROKER_CY_CLUSTERS"]).read_text(encoding="utf-8"))["clusters"]["local"]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "clusters.toml")
        lines = []
        for number, name in enumerate(names):
            secret = Path(directory, str(number))
            secret.write_text(passwords[name] + "\n", encoding="utf-8")
            lines += [f"[clusters.user-{number}]", f"bootstrap = {json.dumps(own['bootstrap'])}"]
            lines += ['security.protocol = "SASL_SSL"', 'sasl.mechanism = "SCRAM-SHA-512"']
            lines += [f"sasl.username = {json.dumps(name)}", f"sasl.password.file = {json.dumps(str(secret))}"]
            location = own["ssl"]["truststore"]["location"]
            lines += ['ssl.truststore.type = "PEM"', f"ssl.truststore.location = {json.dumps(location)}"]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tried = pool.map(lambda each: login_fails(commands, str(file), *each), enumerate(names))
            return {name for name, fails in zip(names, tried, strict=True) if fails}


def change_users(commands: Commands, asked: dict[str, Any]) -> Iterable[str]:
    there = {each["user"] for each in commands.must(["users", "list"]) if each["mechanism"] == "SCRAM-SHA-512"}
    passwords = asked["passwords"]
    stay = [user["name"] for user in asked["users"] if user.get("state", "present") != "absent"]
    wrong = wrong_passwords(commands, [name for name in stay if name in there], passwords)
    for name in stay:
        if name in there and name not in wrong:
            continue
        verb = "alter" if name in there else "create"
        yield f"{verb} user {name}"
        if not asked["check"]:
            arguments = ["users", verb, name, "--mechanism", "SCRAM-SHA-512", "--password-file", "-"]
            commands.must(arguments, stdin=passwords[name] + "\n")
    for user in asked["users"]:
        if user.get("state", "present") == "absent" and user["name"] in there:
            yield f"delete user {user['name']}"
            if not asked["check"]:
                commands.must(["users", "delete", user["name"], "--yes"])


def change_rights(commands: Commands, asked: dict[str, Any]) -> Iterable[str]:
    listed = commands.must(["acls", "list"])
    for user in asked["users"]:
        is_absent = user.get("state", "present") == "absent"
        if "acls" not in user and not is_absent:
            continue
        principal = f"User:{user['name']}"
        there, wanted = there_of(listed, principal), set() if is_absent else wanted_of(user)
        for acl in sorted(wanted - there):
            yield f"{acl.permission} {principal} {acl.operation} {acl.resource} ({acl.pattern}, from {acl.host})"
            if not asked["check"]:
                prefixed = ["--prefixed"] if acl.pattern == "prefixed" else []
                arguments = ["acls", "create", acl.permission, principal, acl.operation, acl.resource, *prefixed]
                commands.must([*arguments, "--host", acl.host])
        for acl in sorted(there - wanted):
            rule = f"{acl.permission} {principal} {acl.operation} {acl.resource}"
            yield f"withdraw {rule} ({acl.pattern}, from {acl.host})"
            if not asked["check"]:
                selected = ["--principal", principal, "--resource", acl.resource, "--pattern", acl.pattern]
                selected += ["--host", acl.host, "--operation", acl.operation, "--permission", acl.permission]
                commands.must(["acls", "delete", *selected, "--yes"])


def main() -> None:
    asked = json.load(sys.stdin)
    commands = Commands(asked["command"])
    changed = list(change_users(commands, asked))
    if asked["authorizer"]:
        changed += change_rights(commands, asked)
    print(json.dumps({"changed": changed}))


main()
