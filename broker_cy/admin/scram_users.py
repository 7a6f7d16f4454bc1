"""Users that log in with SCRAM: list, set and delete their credentials (APIs 50 and 51, KIP-554).

A password is salted here and never sent; the salt is drawn for each credential. Brokers do not show the keys that they
store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin.caller import Caller, Controller, Outcome
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core import scram
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness
from broker_cy.core.scram import Mechanism
from broker_cy.wire import messages

SALT_BYTES: Final = 24
# The limit of one request. A user may occur once in a request, even with several mechanisms.
USERS_A_REQUEST: Final = 100


class CredentialKey(NamedTuple):
    """A credential is that of a user for a mechanism."""

    user: str
    mechanism: Mechanism

    def __str__(self) -> str:
        return f"{self.mechanism.name} of user {self.user}"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The part of a credential that a broker shows."""

    user: str
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True, repr=False)
class NewCredential:
    """A password to set; the `repr` does not contain it."""

    password: str
    iterations: int

    def __repr__(self) -> str:
        return f"NewCredential(iterations={self.iterations})"


class ScramUserCalls:
    """`client.scram_users`."""

    def __init__(self, caller: Caller, randomness: Randomness = MACHINE_RANDOMNESS) -> None:
        self._caller = caller
        self._randomness = randomness

    async def describe(self, users: Iterable[str] | None = None) -> Outcome[str, tuple[ScramCredential, ...]]:
        """The credentials of these users, or of all; an unknown user is in `failed`, with RESOURCE_NOT_FOUND."""
        request = messages.DescribeUserScramCredentialsRequest
        wanted = None if users is None else [request.UserName(name=each) for each in dict.fromkeys(users)]
        answer = await self._caller.ask(
            request(users=wanted),
            messages.DescribeUserScramCredentialsResponse,
            lambda found: problem_of(found.error_code, found.error_message),
            what="the users",
        )
        found: dict[str, tuple[ScramCredential, ...]] = {}
        failed: dict[str, ClientError] = {}
        for result in answer.results:
            problem = problem_of(result.error_code, result.error_message)
            if problem is not None:
                failed[result.user] = ClientError(
                    Failure.REFUSED, problem.message or "", code=problem.code, what=f"user {result.user}"
                )
                continue
            found[result.user] = tuple(
                ScramCredential(result.user, _name(each.mechanism), each.iterations)
                for each in sorted(result.credential_infos, key=lambda info: info.mechanism)
            )
        return Outcome(dict(sorted(found.items())), failed)

    async def alter(self, wanted: Mapping[CredentialKey, NewCredential | None]) -> Outcome[CredentialKey, bool]:
        """Set credentials, or delete those that are None. Raises ClientError for values that no broker accepts."""
        for key, new in wanted.items():
            _check(key, new)
        found: dict[CredentialKey, bool] = {}
        failed: dict[CredentialKey, ClientError] = {}
        # One request after the other for the mechanisms of a user.
        for mechanism in scram.MECHANISMS:
            keys = [key for key in wanted if key.mechanism == mechanism]
            if keys:
                outcome = await self._alter({key: wanted[key] for key in keys})
                found |= outcome.found
                failed |= outcome.failed
        return Outcome(found, failed)

    async def _alter(self, wanted: Mapping[CredentialKey, NewCredential | None]) -> Outcome[CredentialKey, bool]:
        async def send(
            peer: Peer, keys: list[CredentialKey], deadline: Deadline
        ) -> dict[CredentialKey, bool | Problem]:
            request = messages.AlterUserScramCredentialsRequest()
            for key in keys:
                self._add(request, key, wanted[key])
            answer, _ = await self._caller.pool.ask(peer, request, messages.AlterUserScramCredentialsResponse, deadline)
            results = {each.user: problem_of(each.error_code, each.error_message) for each in answer.results}
            return {key: results[key.user] or True for key in keys if key.user in results}

        # Repeating a deletion would be an error.
        repeatable = all(new is not None for new in wanted.values())
        return await self._caller.spread(
            wanted,
            Controller(self._caller),
            send,
            api="AlterUserScramCredentials",
            name=str,
            chunk=USERS_A_REQUEST,
            repeatable=repeatable,
        )

    def _add(
        self, request: messages.AlterUserScramCredentialsRequest, key: CredentialKey, new: NewCredential | None
    ) -> None:
        kinds = messages.AlterUserScramCredentialsRequest
        if new is None:
            request.deletions.append(kinds.ScramCredentialDeletion(name=key.user, mechanism=key.mechanism.type))
            return
        salt = self._randomness.take_bytes(SALT_BYTES)
        request.upsertions.append(
            kinds.ScramCredentialUpsertion(
                name=key.user,
                mechanism=key.mechanism.type,
                iterations=new.iterations,
                salt=salt,
                salted_password=scram.salted_password(key.mechanism, new.password, salt, new.iterations),
            )
        )


def is_unknown(error: ClientError) -> bool:
    """Whether a user has no credentials."""
    return error.code is ErrorCode.RESOURCE_NOT_FOUND


def _name(number: int) -> str:
    mechanism = scram.of_type(number)
    return str(number) if mechanism is None else mechanism.name


def _check(key: CredentialKey, new: NewCredential | None) -> None:
    if not key.user:
        raise ClientError(Failure.INVALID, "the name of a user must not be empty", what="user")
    if new is None:
        return
    if not new.password:
        raise ClientError(Failure.INVALID, "the password must not be empty", what=str(key))
    low, high = scram.ITERATIONS_MIN, scram.ITERATIONS_MAX
    if not low <= new.iterations <= high:
        reason = f"{new.iterations} iterations: {low} to {high} are allowed"
        raise ClientError(Failure.INVALID, reason, what=str(key))
