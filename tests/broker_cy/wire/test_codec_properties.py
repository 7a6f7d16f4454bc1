"""If these fail, some message of the protocol cannot be read back, or foreign bytes can crash the broker."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.core.errors import WireError
from broker_cy.core.writer import Writer
from broker_cy.wire import codec, messages
from tests.broker_cy.wire.random_messages import ALL, Generator
from tests.support.tiers import by_tier

NAMES = sorted({name for name, _ in ALL})
SEEDS, CHANGED_SEEDS = by_tier(2, 6), by_tier(1, 3)


def versions_of(name: str) -> list[int]:
    return [version for other, version in ALL if other == name]


@pytest.mark.parametrize("name", NAMES)
def test_every_message_comes_back_as_it_was(name: str) -> None:
    for version in versions_of(name):
        for seed in range(SEEDS):
            message = Generator((name, version, seed)).message(name, version)
            data = codec.encode(message, version)
            back = codec.decode(type(message), version, data)
            assert back == message
            assert in_parts(type(message), version, data) == (message, "")
            assert codec.encode(back, version) == data
            assert codec.decode_prefix(type(message), version, data + b"more") == (message, len(data))
            versioned = codec.encode_versioned(message, version)
            assert versioned == version.to_bytes(2, "big") + data
            assert codec.decode_versioned(type(message), versioned) == (message, version)


@pytest.mark.parametrize("name", NAMES)
def test_a_message_cut_anywhere_is_an_error(name: str) -> None:
    for version in versions_of(name):
        # One element per array and short texts: every kind of cut, with few bytes.
        message = Generator((name, version, "cut"), elements_max=1).message(name, version)
        data = codec.encode(message, version)
        for size in range(min(len(data), 400)):
            # The rest is mapped, so a read past the end of the view would go unnoticed.
            with pytest.raises(WireError) as raised:
                codec.decode(type(message), version, memoryview(data)[:size])
            assert raised.value.field.startswith(name)


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_are_a_message_or_an_error(name: str) -> None:
    rng = random.Random(name)
    for version in versions_of(name):
        for seed in range(CHANGED_SEEDS):
            message = Generator((name, version, seed)).message(name, version)
            data = bytearray(codec.encode(message, version))
            for _ in range(25):
                changed = bytearray(data)
                for _ in range(rng.randrange(1, 4)):
                    if changed:
                        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
                check_foreign(type(message), version, changed)


@given(st.sampled_from(ALL), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_message_or_an_error(which: tuple[str, int], data: bytes) -> None:
    name, version = which
    check_foreign(getattr(messages, name), version, data)


def in_parts(cls: type[codec.Message], version: int, data: Any) -> tuple[codec.Message | None, str]:
    """The message that is decoded in parts, or the error."""
    parts = codec.decode_parts(cls, version, data)
    try:
        while True:
            next(parts)
    except StopIteration as end:
        return end.value, ""
    except WireError as error:
        return None, str(error)


def check_foreign(cls: type[codec.Message], version: int, data: Any) -> None:
    try:
        message = codec.decode(cls, version, data)
    except WireError as error:
        assert error.field.startswith(cls.__name__)  # noqa: PT017
        assert in_parts(cls, version, data) == (None, str(error))  # noqa: PT017
        return
    assert in_parts(cls, version, data)[0] == message or "nan" in repr(message)
    # An accepted message must be writable, and mean the same: a broker forwards and stores messages that it read.
    written = codec.encode(message, version)
    again = codec.decode(cls, version, written)
    assert again == message or "nan" in repr(message)


def test_a_large_message_has_many_parts() -> None:
    """If this fails, a console does not react while the answer about 200,000 partitions is decoded."""
    answer = messages.MetadataResponse
    partitions = [answer.MetadataResponsePartition(partition_index=number) for number in range(3_000)]
    few = [answer.MetadataResponseTopic(name=f"t{n}", partitions=partitions[:3]) for n in range(1_000)]
    for topics in ([answer.MetadataResponseTopic(name="t", partitions=partitions)], few):
        message = answer(topics=topics)
        data = codec.encode(message, 12)
        assert sum(1 for _ in codec.decode_parts(answer, 12, data)) >= 6
        assert in_parts(answer, 12, data) == (message, "")


@pytest.mark.parametrize("name", NAMES)
def test_encoding_into_a_writer_appends(name: str) -> None:
    version = versions_of(name)[-1]
    message = Generator((name, version)).message(name, version)
    writer = Writer()
    writer.write_i32(7)
    codec.encode_into(writer, message, version)
    codec.encode_into(writer, message, version)
    assert writer.getvalue() == b"\0\0\0\7" + codec.encode(message, version) * 2
