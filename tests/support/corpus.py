"""Real input from this machine: a Debian package index, one record for each paragraph, with the package as key."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import lzma
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import cramjam

Pair = tuple[bytes, bytes]
_SEPARATOR = b"\n\n"


def _source() -> Path:
    """The largest package index of apt, else dpkg's status; $BROKER_CY_TEST_CORPUS names another file of that form."""
    named = os.environ.get("BROKER_CY_TEST_CORPUS")
    if named:
        return Path(named)
    indexes = [path for path in Path("/var/lib/apt/lists").glob("*_Packages*") if path.is_file()]
    if indexes:
        return max(indexes, key=lambda path: path.stat().st_size)
    status = Path("/var/lib/dpkg/status")
    if status.exists():
        return status
    raise AssertionError(
        "no Debian package index and no /var/lib/dpkg/status here; name a file of paragraphs in BROKER_CY_TEST_CORPUS"
    )


def _text(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".lz4":
        return bytes(cramjam.lz4.decompress(raw))
    if path.suffix == ".gz":
        return gzip.decompress(raw)
    if path.suffix == ".xz":
        return lzma.decompress(raw)
    if path.suffix == ".zst":
        return bytes(cramjam.zstd.decompress(raw))
    return raw


@cache
def paragraphs() -> list[Pair]:
    """(package, paragraph) in the order of the file."""
    pairs = []
    for paragraph in _text(_source()).split(_SEPARATOR):
        if paragraph.strip():
            package = paragraph.split(b"Package:", 1)[1].split(b"\n", 1)[0].strip()
            pairs.append((package, paragraph))
    assert len(pairs) > 50, f"{_source()} has only {len(pairs)} paragraphs"
    return pairs


def head(count: int) -> list[Pair]:
    """The first `count` paragraphs, repeated from the start if the file has fewer: dpkg's status may have only a
    hundred.
    """
    return list(itertools.islice(itertools.cycle(paragraphs()), count))


def digest(pairs: Iterable[Pair]) -> str:
    """SHA-256 over keys and values, with lengths so that no byte can move from one to the next; order matters."""
    sha = hashlib.sha256()
    for key, value in pairs:
        sha.update(b"%d %d\n" % (len(key), len(value)))
        sha.update(key)
        sha.update(value)
    return sha.hexdigest()


def digest_any_order(pairs: Iterable[Pair]) -> str:
    """The same over a multiset, for topics of several partitions."""
    return digest(sorted(pairs))
