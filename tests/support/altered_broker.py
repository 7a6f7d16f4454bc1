"""A proxy that alters the responses of a real broker, for states that one broker alone cannot be in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from tests.support.proxy import Proxy, Upstream

Alter = Callable[[Any], None]


class AlteredBroker(Proxy):
    """Forwards requests. `alter` maps an API to a function that alters each response, as long as it is set; `answers`
    has functions that answer requests of APIs that the broker does not offer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.alter: dict[ApiKey, Alter] = {}
        self.answers: dict[ApiKey, Callable[[], Any]] = {}

    async def answer(self, api_key: int, version: int, request: bytes, upstream: Upstream) -> bytes | None:
        api = ApiKey(api_key)
        if api in self.answers:
            # The correlation id, which follows the API key and the version, and no tagged fields.
            header = request[4:8] + bytes(frame.response_header_version(api, version))
            return header + codec.encode(self.answers[api](), version)
        return self._altered(api, version, await upstream.forward(request))

    def _altered(self, api: ApiKey, version: int, answer: bytes) -> bytes:
        alter = self._offer if api is ApiKey.API_VERSIONS else self.alter.get(api)
        if alter is None:
            return answer
        # The correlation id, and the byte of tagged fields if the header has one.
        header = 4 + frame.response_header_version(api, version)
        message = codec.decode(frame.response_class(api), version, answer[header:])
        alter(message)
        return answer[:header] + codec.encode(message, version)

    def _offer(self, message: Any) -> None:
        """Also offer the APIs that are answered here."""
        for api in self.answers:
            low, high = frame.api_versions(api)
            message.api_keys.append(
                messages.ApiVersionsResponse.ApiVersion(api_key=int(api), min_version=low, max_version=high)
            )
