"""If these fail, the broker misreads the first bytes of requests, or answers with a header that no client expects."""

import struct

import pytest

from broker_cy.core.errors import WireError
from broker_cy.schemas import tables
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.frame import ApiKey


def test_api_keys_are_those_of_the_tables() -> None:
    table = {}
    for name in tables.message_files():
        spec = tables.load(name)
        if spec.kind == "request":
            table[spec.key] = tables.snake_case(name.removesuffix("Request")).upper()
    assert {key.value: key.name for key in ApiKey} == table
    assert len(table) == 93


@pytest.mark.parametrize("key", ApiKey)
def test_each_api_has_its_classes_and_versions(key: ApiKey) -> None:
    request, response = frame.request_class(key), frame.response_class(key)
    assert request.API_KEY == response.API_KEY == key
    assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
    assert frame.api_versions(key) == request.VERSIONS == response.VERSIONS
    flexible = tables.load(request.__name__).flexible
    for version in range(request.VERSIONS[1] + 2):
        header = 2 if flexible.low <= version and flexible.high >= 0 else 1
        assert frame.request_header_version(key, version) == header
        assert frame.response_header_version(key, version) == (0 if key == ApiKey.API_VERSIONS else header - 1)


@pytest.mark.parametrize("key", [-1, 93, 32767])
def test_an_unknown_api_is_named(key: int) -> None:
    with pytest.raises(WireError, match=f"api key {key} does not exist; 0 to 92 exist"):
        frame.request_header_version(key, 0)
    with pytest.raises(WireError, match=f"api key {key} does not exist"):
        frame.parse_request_header(struct.pack(">hhih", key, 0, 1, -1))


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "naïve"])
@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 8), (ApiKey.METADATA, 9), (ApiKey.API_VERSIONS, 99)])
def test_request_headers_are_parsed_as_the_codec_writes_them(key: ApiKey, version: int, client_id: str | None) -> None:
    header = messages.RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=-7, client_id=client_id
    )
    header_version = frame.request_header_version(key, version)
    if header_version == 2:
        header._unknown_tags = ((3, b"abc"), (900, b""))
    data = codec.encode(header, header_version)
    assert frame.parse_request_header(data + b"body") == (key, version, -7, client_id, len(data))
    assert codec.decode(messages.RequestHeader, header_version, data) == header
    for size in range(len(data)):
        with pytest.raises(WireError):
            frame.parse_request_header(data[:size])


def test_bad_client_ids_are_refused() -> None:
    for raw in (struct.pack(">h", -2), struct.pack(">h", 5) + b"abcd", struct.pack(">h", 2) + b"\xff\xfe"):
        with pytest.raises(WireError):
            frame.parse_request_header(struct.pack(">hhi", 3, 1, 1) + raw)


def test_claimed_tags_of_a_header_cost_nothing() -> None:
    start = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1)
    with pytest.raises(WireError, match="4294967295 tagged fields do not fit"):
        frame.parse_request_header(start + b"\xff\xff\xff\xff\x0f")
