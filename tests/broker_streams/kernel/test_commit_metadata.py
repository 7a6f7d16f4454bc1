"""The text beside committed offsets, as Kafka Streams writes and reads it."""

from __future__ import annotations

import base64

import pytest

from broker_streams.kernel.commit_metadata import CommitMetadata, of_text

PLAIN = bytes.fromhex("02 0000000000000032")
TWO = PLAIN + bytes.fromhex("00000002 00000001 61 0000000000000014 00000002 c3a9 0000000000000007")


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        (CommitMetadata(50, {}), PLAIN),
        # In the order of Java's map of names: that of their hashes.
        (CommitMetadata(50, {"\u00e9": 7, "a": 20}), TWO),
        (CommitMetadata(-1, {}), bytes.fromhex("02 ffffffffffffffff")),
    ],
)
def test_texts_are_kafkas(metadata: CommitMetadata, data: bytes) -> None:
    """If this fails, an application of Kafka Streams that is moved here, or back, starts its times again."""
    assert metadata.text() == base64.b64encode(data).decode()
    assert of_text(metadata.text()) == metadata


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "\u00e9",
        "not base64",
        base64.b64encode(b"\x03" + bytes(8)).decode(),
        base64.b64encode(TWO[:-3]).decode(),
        base64.b64encode(PLAIN + b"\x7f\xff\xff\xff").decode(),
        base64.b64encode(PLAIN + bytes.fromhex("00000001 00000001 ff 0000000000000014")).decode(),
    ],
)
def test_other_texts_tell_nothing(text: str | None) -> None:
    """If this fails, a task cannot start from offsets that an administrator set."""
    assert of_text(text) == CommitMetadata(-1, {})


def test_the_version_before_had_the_time_alone() -> None:
    """If this fails, an application that was written by an older Kafka Streams starts its times again."""
    assert of_text(base64.b64encode(bytes.fromhex("01 0000000000000032")).decode()) == CommitMetadata(50, {})
