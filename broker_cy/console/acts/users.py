"""Acts on users that log in with SCRAM: set a password, delete a credential."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.scram_users import CredentialKey, NewCredential, ScramCredential
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import integer
from broker_cy.core import scram
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import count

_NAMES = tuple(each.name for each in scram.MECHANISMS)
_ITERATIONS = 8_192
_PASSWORD_CHARACTERS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class SetPassword:
    key: CredentialKey
    new: NewCredential

    async def run(self, client: AdminClient) -> Report:
        (await client.scram_users.alter({self.key: self.new})).whole()
        return Report(f"set {self.key}", (str(self.key),))


@dataclass(frozen=True, slots=True)
class DeleteCredential:
    key: CredentialKey

    async def run(self, client: AdminClient) -> Report:
        (await client.scram_users.alter({self.key: None})).whole()
        return Report(f"deleted {self.key}", (str(self.key),))


def password_form(of: ScramCredential | None = None) -> Form:
    """The form for a password; `of` is the credential to change, None for a new user."""
    known = of is not None and of.mechanism in _NAMES
    return Form(
        f"Another password for {of.user}" if of else "Create a user",
        [
            Field("user", "User", _user, of.user if of else "", "name"),
            Field("mechanism", "Mechanism", value=of.mechanism if of and known else _NAMES[-1], choices=_NAMES),
            Field(
                "iterations",
                "Iterations",
                integer(scram.ITERATIONS_MIN, scram.ITERATIONS_MAX),
                str(of.iterations if of else _ITERATIONS),
            ),
            Field("password", "Password", _password, is_secret=True),
            Field("again", "Password again", _password, is_secret=True),
        ],
        note="The password is salted here; the cluster never gets it. It counts with the next login.",
        check=_check,
    )


def _user(text: str) -> str:
    if not text:
        raise ValueError("a name is expected")
    return text


def _password(text: str) -> str:
    if not 0 < len(text) <= _PASSWORD_CHARACTERS_MAX:
        raise ValueError(f"1 to {_PASSWORD_CHARACTERS_MAX:,} characters are expected")
    return text


def _check(values: Mapping[str, Any]) -> tuple[str, str] | None:
    return ("again", "is another password") if values["password"] != values["again"] else None


async def plan_password(client: AdminClient, command: Command, values: Mapping[str, Any], *, is_new: bool) -> Plan:
    """Plan the values entered into `password_form`. Raises ClientError."""
    key = _key(values["user"], values["mechanism"])
    before = await _iterations(client, key)
    iterations = values["iterations"]
    problem = ""
    if is_new and before is not None:
        problem = f"user {key.user} has a credential for {key.mechanism.name} already"
    elif not is_new and before is None:
        problem = f"user {key.user} has no credential for {key.mechanism.name}"
    return Plan(
        f"{'Create' if is_new else 'Alter'} user {key.user}",
        f"sets the password of {key}",
        command(
            "users",
            "create" if is_new else "alter",
            key.user,
            "--mechanism",
            key.mechanism.name,
            "--iterations",
            iterations,
            "--password-file",
            "FILE",
        ),
        SetPassword(key, NewCredential(values["password"], iterations)),
        [Change("iterations", None if before is None else count(before), count(iterations))],
        verb="Create" if is_new else "Set",
        is_destructive=not is_new,
        problem=problem,
    )


async def plan_delete_credential(command: Command, credential: ScramCredential) -> Plan:
    """Plan deleting a credential. Raises ClientError for a mechanism that this version does not know."""
    key = _key(credential.user, credential.mechanism)
    return Plan(
        f"Delete {key}",
        "the user can no longer log in with this mechanism; connections and ACLs stay",
        command("users", "delete", key.user, "--mechanism", key.mechanism.name),
        DeleteCredential(key),
        [Change(key.mechanism.name, note=f"{count(credential.iterations)} iterations")],
        typed=key.user,
        verb="Delete",
    )


def _key(user: str, name: str) -> CredentialKey:
    mechanism = scram.of_name(name)
    if mechanism is None:
        raise ClientError(Failure.INVALID, f"{name} is not known: {' and '.join(_NAMES)} are", what=f"user {user}")
    return CredentialKey(user, mechanism)


async def _iterations(client: AdminClient, key: CredentialKey) -> int | None:
    found = (await client.scram_users.describe([key.user])).found.get(key.user, ())
    return next((each.iterations for each in found if each.mechanism == key.mechanism.name), None)
