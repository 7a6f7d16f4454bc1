"""SCRAM credentials of users: AlterUserScramCredentials (51) and DescribeUserScramCredentials (50), with the rules and
messages of Kafka's ScramControlManager and ScramImage (KIP-554).

The records are in the image's `kept`, by (SCRAM, user, type of the mechanism); connections.login checks logins
with them.

One of them belongs to no user: it has the empty name, which no login and no request can have. Its server key is the
secret for answers about users that do not exist (security.sasl.scram.Decoys). In the metadata log it is the same on
each node and after each restart, like the credentials of users; it is written with the first credential.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core import scram
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.authors import NOBODY, Author, tag_of
from broker_cy.metadata.image import SCRAM, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

if TYPE_CHECKING:
    from collections.abc import Mapping

# The key of the record with the secret.
SECRET: Final = (SCRAM, "", scram.MECHANISMS[0].type)
SECRET_BYTES: Final = 32

_Altered = messages.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
_Described = messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_Credential = messages.UserScramCredentialRecord


@dataclass(slots=True)
class AlterScramCredentials(Operation[Any]):
    """Delete and set credentials for `request`, an AlterUserScramCredentialsRequest. The reply is its response, with
    one result for each user: a user may occur only once in a request, with any mechanism. `by` is the requester.
    """

    request: Any
    by: Author = NOBODY

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        records: dict[str, VersionedRecord] = {}
        errors: dict[str, KafkaError] = {}
        for wanted in (*self.request.deletions, *self.request.upsertions):
            name = wanted.name
            if name in errors:
                continue
            try:
                if records.pop(name, None) is not None:
                    raise KafkaError(
                        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                    )
                records[name] = _record(state, wanted)
            except KafkaError as error:
                errors[name] = error
        results = [_Altered(user=name, error_message=None) for name in records]
        results += [
            _Altered(user=name, error_code=int(error.code), error_message=error.message or None)
            for name, error in errors.items()
        ]
        tags = tag_of(self.by)
        for record in records.values():
            record.message._unknown_tags = tags
        written = list(records.values())
        if SECRET not in state.kept and any(isinstance(each.message, _Credential) for each in written):
            written.append(secret_record(context.new_uuid().bytes + context.new_uuid().bytes))
        step.records += written
        return messages.AlterUserScramCredentialsResponse(results=results)


def secret_record(secret: bytes) -> VersionedRecord:
    """The record that SECRET is the key of; `secret` are SECRET_BYTES random bytes."""
    mechanism = scram.MECHANISMS[0]
    unused = bytes(SECRET_BYTES)
    return VersionedRecord(
        _Credential(
            name="",
            mechanism=mechanism.type,
            salt=unused,
            stored_key=unused,
            server_key=secret,
            iterations=scram.ITERATIONS_MIN,
        )
    )


def secret_of(kept: Mapping[tuple[Any, ...], Any]) -> bytes | None:
    """The secret of a cluster. If a controller of Kafka, or an older one of ours, has written all credentials, it is
    the server key of one user: only nodes know it, too, but it changes with the user's password; None without users.
    That search is O(entries).
    """
    record = kept.get(SECRET)
    if record is None:
        first = min((key for key in kept if key[0] == SCRAM), default=None)
        record = kept[first] if first is not None else None
    return record.server_key if record is not None else None


def _record(state: MetadataImage, wanted: Any) -> VersionedRecord:
    """The record of a deletion or an upsertion. Raises KafkaError."""
    if state.features.metadata_version < features.MV_SCRAM:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not wanted.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = scram.of_type(wanted.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(wanted, messages.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
        if (SCRAM, wanted.name, wanted.mechanism) not in state.kept:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return VersionedRecord(messages.RemoveUserScramCredentialRecord(name=wanted.name, mechanism=wanted.mechanism))
    if wanted.iterations < scram.ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wanted.iterations > scram.ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    try:
        return credential(mechanism, wanted.name, wanted.salt, wanted.salted_password, wanted.iterations)
    except ValueError as error:
        # As in Kafka, whose answer gives no reason.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "") from error


def credential(
    mechanism: scram.Mechanism, user: str, salt: bytes, salted_password: bytes, iterations: int
) -> VersionedRecord:
    """The record of a credential. Raises ValueError for an empty password: Java's cryptography has no empty keys."""
    if not salted_password:
        raise ValueError("the salted password is empty")
    keys = scram.keys_of(mechanism, salted_password)
    return VersionedRecord(
        _Credential(
            name=user,
            mechanism=mechanism.type,
            salt=salt,
            stored_key=keys.stored_key,
            server_key=keys.server_key,
            iterations=iterations,
        )
    )


def describe(state: MetadataImage, users: list[Any] | None) -> Any:
    """The DescribeUserScramCredentialsResponse for `users`, which have a name; None or an empty list: for all."""
    iterations: dict[str, dict[int, int]] = {}
    for key, record in state.kept.items():
        if key[0] == SCRAM and key != SECRET:
            iterations.setdefault(record.name, {})[record.mechanism] = record.iterations
    asked = Counter(user.name for user in users) if users else dict.fromkeys(iterations, 1)
    return messages.DescribeUserScramCredentialsResponse(
        # As in Kafka, an empty text stands for no error here, and null in the answer to a change.
        error_message="",
        results=[_described(name, count, iterations.get(name, {})) for name, count in asked.items()],
    )


def _described(user: str, times: int, iterations: dict[int, int]) -> _Described:
    """The result of a user that the request names `times` times; `iterations` by type of the mechanism."""
    code, message = ErrorCode.NONE, ""
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not iterations:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    info = messages.DescribeUserScramCredentialsResponse.CredentialInfo
    return _Described(
        user=user,
        error_code=int(code),
        error_message=message,
        credential_infos=[]
        if code
        else [info(mechanism=each, iterations=count) for each, count in sorted(iterations.items())],
    )
