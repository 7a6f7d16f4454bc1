"""A proxy that makes a broker look old, slow or unresponsive to its clients."""

from __future__ import annotations

from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey
from tests.support.proxy import Proxy, Upstream

_UNSUPPORTED_VERSION = 35


class OldBroker(Proxy):
    """Offers only versions `{api key: (low, high)}` and ApiVersions 0, and forwards every other request.

    While `silent` is set, requests are read and never answered. `seen` counts requests by (api key, version).
    """

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        super().__init__()
        self.versions = {**versions, int(ApiKey.API_VERSIONS): (0, 0)}
        self.silent = False
        self.seen: dict[tuple[int, int], int] = {}

    async def answer(self, api_key: int, version: int, request: bytes, upstream: Upstream) -> bytes | None:
        self.seen[api_key, version] = self.seen.get((api_key, version), 0) + 1
        if self.silent:
            return None
        if api_key == ApiKey.API_VERSIONS:
            # The correlation id follows the API key and the version.
            return request[4:8] + self._offer(version)
        low, high = self.versions.get(api_key, (0, -1))
        assert low <= version <= high, f"{ApiKey(api_key).name} {version} was not offered"
        return await upstream.forward(request)

    def _offer(self, version: int) -> bytes:
        """The response of a broker that knows only version 0, also to requests of another version."""
        ranges = [
            messages.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self.versions.items())
        ]
        error_code = 0 if version == 0 else _UNSUPPORTED_VERSION
        return codec.encode(messages.ApiVersionsResponse(error_code=error_code, api_keys=ranges), 0)
