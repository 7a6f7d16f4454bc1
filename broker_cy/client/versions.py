"""The versions of each API that a client and a broker both know (KIP-35, KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from broker_cy import __version__
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey

# Characters that Kafka allows in the version of a client's software (KIP-511).
_NOT_ALLOWED_IN_VERSION = re.compile(r"[^a-zA-Z0-9.-]")


class VersionRange(NamedTuple):
    """The versions of an API, both inclusive."""

    low: int
    high: int


Versions = Mapping[int, VersionRange]


class UnsupportedApi(Exception):
    """The client and the broker have no common version of an API; the text names the versions of each."""


class Negotiation:
    """The question for the broker's versions: send `body` in `version`, give the answer to `take`, until it is done."""

    def __init__(self, software_name: str) -> None:
        self._request = messages.ApiVersionsRequest(
            client_software_name=software_name, client_software_version=_NOT_ALLOWED_IN_VERSION.sub("-", __version__)
        )
        self.version = frame.api_versions(ApiKey.API_VERSIONS)[1]

    @property
    def body(self) -> bytes:
        """The body of the next ApiVersions request."""
        return codec.encode(self._request, self.version)

    def take(self, answer: memoryview) -> messages.ApiVersionsResponse | None:
        """Return the decoded answer, whose error code is not checked, or None if another version must be requested.

        A broker that does not know our version answers in version 0 (KIP-511). Raises WireError.
        """
        code = int.from_bytes(answer[:2], "big", signed=True)
        unknown_version = code == ErrorCode.UNSUPPORTED_VERSION and self.version > 0
        decoded = codec.decode(messages.ApiVersionsResponse, 0 if unknown_version else self.version, answer)
        if not unknown_version:
            return decoded
        offered = [each.max_version for each in decoded.api_keys if each.api_key == ApiKey.API_VERSIONS]
        self.version = min(self.version - 1, max(offered, default=0))
        return None


def offered_versions(answer: messages.ApiVersionsResponse) -> dict[int, VersionRange]:
    """Return the versions of each API that the broker offers."""
    return {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.api_keys}


def common_version(versions: Versions, api_key: int, api: str, at_least: int = 0, at_most: int = 32767) -> int:
    """Return the highest version from `at_least` to `at_most` that the broker and this client know.

    Raises UnsupportedApi.
    """
    offered = versions.get(api_key)
    if offered is None or offered.high < offered.low:
        raise UnsupportedApi(f"the broker does not support {api}")
    low, high = frame.api_versions(api_key)
    low, high = max(low, at_least), min(high, at_most)
    version = min(high, offered.high)
    if version < max(low, offered.low):
        raise UnsupportedApi(
            f"version {low} to {high} is needed, and the broker supports {offered.low} to {offered.high}"
        )
    return version
