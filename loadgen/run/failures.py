"""Why a run could not be performed, as a failure of all programs, which has an exit code."""

from __future__ import annotations

from broker_cy.client.errors import ClientError, Failure
from loadgen.net.cluster import Refused
from loadgen.net.connection import NetError
from loadgen.run.conductor import RunError

# Names of NetError whose reason is not that a broker is away.
_KINDS = {
    "INVALID_CONFIG": Failure.INVALID,
    "SASL_AUTHENTICATION_FAILED": Failure.REFUSED,
    "UNSUPPORTED_VERSION": Failure.UNSUPPORTED,
    "CORRUPT_ANSWER": Failure.MALFORMED,
    "TIMED_OUT": Failure.TIMED_OUT,
    "REQUEST_TIMED_OUT": Failure.TIMED_OUT,
}


def failure_of(error: RunError | NetError | Refused) -> ClientError:
    """Return the failure. A RunError may have the error of a connection as its cause."""
    cause = error.__cause__ if isinstance(error, RunError) else error
    if isinstance(cause, NetError):
        told = cause.__cause__
        if isinstance(told, ClientError) and str(told) == str(error):
            # It names the broker and the request apart from the reason.
            return told
        return ClientError(_KINDS.get(cause.name, Failure.UNREACHABLE), str(error))
    return ClientError(Failure.REFUSED, str(error))
