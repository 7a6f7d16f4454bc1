"""Conversion of our histograms to and from HdrHistogram V2 text (base64 of the compressed encoding) for other tools.

HdrHistogram is defined at https://github.com/HdrHistogram/HdrHistogram; the unit here is a microsecond, and values have
three digits. A value is the upper end of our bucket, rounded up: never below the recorded value, at most 1/128 and one
microsecond above it.
"""

from collections.abc import Iterable

from hdrh.histogram import HdrHistogram

from bench.measuring.histogram import Histogram

DIGITS = 3
NS_PER_US = 1000
LEAST_TOP_US = 2  # HdrHistogram requires the highest value to be at least twice the lowest, which is 1
# 2^63 ns: no Histogram holds more, so a text that claims more is not one of ours.
MOST_US = (1 << 63) // NS_PER_US + 1


class HdrError(Exception):
    """A text that is not an HdrHistogram of microseconds."""


def hdr_base64(histogram: Histogram) -> str:
    """Encode all counts of a histogram, but not its negative values, which have no bucket."""
    found = HdrHistogram(1, max(LEAST_TOP_US, -(-histogram.highest // NS_PER_US)), DIGITS)
    for highest_ns, count in histogram.buckets():
        if not found.record_value(-(-highest_ns // NS_PER_US), count):
            raise AssertionError(f"{highest_ns} ns is above the histogram's own highest value {histogram.highest}")
    text: bytes = found.encode()
    return text.decode("ascii")


def decode(text: str) -> HdrHistogram:
    """Decode the histogram (in microseconds) of a text. Raises HdrError."""
    try:
        found = HdrHistogram.decode(text.encode("ascii"))
    except Exception as error:  # the package raises the exceptions of base64, zlib, ctypes and its own checks
        raise HdrError(f"not an HdrHistogram V2 text: {error or type(error).__name__}") from None
    if found.get_max_value() > 2 * MOST_US:
        raise HdrError(f"a value of {found.get_max_value()} us is beyond what is recorded here")
    return found


def merged(texts: Iterable[str]) -> HdrHistogram:
    """Merge several texts into one histogram, exactly (all have the same buckets). Raises HdrError."""
    parts = [decode(text) for text in texts]
    whole = HdrHistogram(1, max([LEAST_TOP_US, *(part.get_max_value() for part in parts)]), DIGITS)
    for part in parts:
        whole.add(part)
    return whole
