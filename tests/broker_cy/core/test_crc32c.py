"""CRC-32C: a wrong sum makes every producer's batch look corrupt, or lets a corrupt one through."""

import random

import pytest

from broker_cy.core import crc32c

IMPLEMENTATIONS = crc32c.implementations()

# RFC 3720, appendix B.4.
PUBLISHED = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


def bit_by_bit(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("data", "expected"), PUBLISHED)
def test_published_vectors(implementation: str, data: bytes, expected: int) -> None:
    """Sums that other systems computed are recognised."""
    assert crc32c.value_with(implementation, data) == expected
    assert crc32c.value(data) == expected


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_length_and_alignment(implementation: str) -> None:
    """No batch size (around each size of the three-stream loop) and no place in a receive buffer gives a wrong sum."""
    data = random.Random(1).randbytes(13_000)
    sums = [0]
    for i in range(700):
        sums.append(bit_by_bit(data[i : i + 1], sums[-1]))
    for length in range(701):
        assert crc32c.value_with(implementation, data[:length]) == sums[length]
    view = memoryview(data)
    for length in (191, 192, 193, 1535, 1536, 1537, 12_287, 12_288, 12_289, 12_900):
        for start in range(9):
            part = view[start : start + length]
            assert crc32c.value_with(implementation, part) == bit_by_bit(bytes(part))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_continues_from_a_finished_value(implementation: str) -> None:
    """A sum over a batch in two pieces equals the sum over the whole."""
    data = random.Random(2).randbytes(5000)
    whole = bit_by_bit(data)
    for cut in (0, 1, 7, 8, 200, 1600, 4999, 5000):
        assert crc32c.value_with(implementation, data[cut:], crc32c.value_with(implementation, data[:cut])) == whole


def test_portable_is_always_usable_and_the_fastest_is_last() -> None:
    """The broker also runs on a processor without the instruction; `value` agrees with the implementation that is
    listed last.
    """
    assert IMPLEMENTATIONS[0] == "portable"
    assert len(set(IMPLEMENTATIONS)) == len(IMPLEMENTATIONS)
    with pytest.raises(ValueError, match=r"'sparc'.*portable"):
        crc32c.value_with("sparc", b"")
