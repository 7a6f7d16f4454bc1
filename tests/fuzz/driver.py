"""Runs one target in a separate process: `python -m tests.fuzz.driver run TARGET SEED COUNT SCRATCH`.

The input is in the file SCRATCH while it runs, so that it is known after a crash or a hang. The last line of stdout is
a JSON object: the run's figures, and the first finding, if any. `replay TARGET SCRATCH FILE...` runs inputs from
files.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import resource
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz.mutator import SIZE_BYTES_MAX, Mutator
from tests.fuzz.target import Target
from tests.fuzz.targets import load

SCRATCH_BYTES = SIZE_BYTES_MAX * 4
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Accepted mutants take part in later mutations; this many are kept.
POOL_SIZE = 256
POOL_INPUT_BYTES_MAX = 2048
RSS_GROWTH_BYTES_MAX = 24 << 20


class Scratch:
    """The input that is being run, in a mapped file that survives the process."""

    def __init__(self, path: str) -> None:
        with open(path, "w+b") as file:
            file.truncate(SCRATCH_BYTES)
            self.map = mmap.mmap(file.fileno(), SCRATCH_BYTES)

    def put(self, data: bytes) -> None:
        size = len(data)
        self.map[:4] = size.to_bytes(4)
        self.map[4 : 4 + size] = data


def read_scratch(path: Path) -> bytes:
    """The last input of a driver that died."""
    content = path.read_bytes()
    return content[4 : 4 + int.from_bytes(content[:4])]


def _memory() -> tuple[int, int]:
    """(address space, resident) bytes of this process."""
    size, resident = Path("/proc/self/statm").read_text().split()[:2]
    return int(size) * PAGE_BYTES, int(resident) * PAGE_BYTES


def sanitized() -> bool:
    """Return whether this runs under AddressSanitizer, which reserves terabytes and holds back freed memory."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def _limit_memory(target: Target) -> None:
    if not sanitized():
        limit = _memory()[0] + target.memory_bytes_max
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _held() -> tuple[int, int, int]:
    """Resident bytes, Python's memory blocks and open descriptors, with garbage collected."""
    gc.collect()
    return _memory()[1], sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


def _finding(data: bytes) -> dict[str, str]:
    return {"input": data.hex(), "error": traceback.format_exc(limit=-12)}


def run(target: Target, seed: int, count: int, scratch: Scratch) -> dict[str, Any]:
    """Run `count` mutants. Returns figures, with `finding` if one was found."""
    corpus = target.corpus()
    execute, expected, mutate, put = target.run, target.expected, target.mutate, scratch.put
    sound = 0
    for data in corpus:
        put(data)
        try:
            execute(data)
        except expected:
            continue
        except Exception:
            return {"finding": _finding(data), "in": "the corpus"}
        sound += 1
    # Mutants of inputs that are refused anyway would only reach the first check.
    assert sound >= len(corpus) * 3 // 4, f"{sound} of {len(corpus)} inputs of the corpus are accepted"
    _limit_memory(target)
    mutator = Mutator(seed)
    bits = mutator.bits
    pool = [corpus[i % len(corpus)] for i in range(POOL_SIZE)]
    corpus_size = len(corpus)
    accepted = 0
    held: tuple[int, int, int] | None = None
    # By then, everything that is built on first use exists.
    warm_at = count // 3
    data = b""
    started = time.perf_counter()
    try:
        for number in range(count):
            if number == warm_at:
                held = _held()
            r = bits(48)
            item = corpus[(r >> 8 & 0xFFFF) % corpus_size] if r & 3 else pool[r >> 8 & POOL_SIZE - 1]
            data = mutate(mutator, item, corpus[(r >> 24) % corpus_size])
            put(data)
            try:
                execute(data)
            except expected:
                continue
            accepted += 1
            if r & 0xF0 == 0 and len(data) <= POOL_INPUT_BYTES_MAX:
                pool[r >> 40 & POOL_SIZE - 1] = data
    except Exception:
        return {"finding": _finding(data), "in": f"input {number}"}
    seconds = time.perf_counter() - started
    figures = {"count": count, "accepted": accepted, "seconds": round(seconds, 2), "per_s": int(count / seconds)}
    after = _held()
    assert held is not None
    growth = [now - before for now, before in zip(after, held, strict=True)]
    figures |= {"rss_growth": growth[0], "blocks_growth": growth[1], "fd_growth": growth[2]}
    figures["max_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    leaks = []
    if growth[0] > RSS_GROWTH_BYTES_MAX and not sanitized():
        leaks.append(f"resident memory grew by {growth[0]} bytes; {RSS_GROWTH_BYTES_MAX} are allowed")
    if growth[1] > target.allocated_blocks_max:
        leaks.append(f"{growth[1]} Python memory blocks stayed; {target.allocated_blocks_max} are allowed")
    if growth[2] > 0:
        leaks.append(f"{growth[2]} descriptors stayed open")
    return figures | ({"leaks": leaks} if leaks else {})


def replay(target: Target, paths: list[str], scratch: Scratch) -> dict[str, Any]:
    """Run the inputs in files of hexadecimal text."""
    for data in target.corpus():
        with suppress(*target.expected):
            target.run(data)
    _limit_memory(target)
    for path in paths:
        data = bytes.fromhex(Path(path).read_text())
        scratch.put(data)
        try:
            target.run(data)
        except target.expected:
            continue
        except Exception:
            return {"finding": _finding(data), "in": path}
    return {"count": len(paths)}


def main() -> None:
    """The command line."""
    faulthandler.enable()
    mode, name = sys.argv[1:3]
    target = load(name)
    try:
        if mode == "run":
            seed, count, path = sys.argv[3:6]
            result = run(target, int(seed), int(count), Scratch(path))
        else:
            result = replay(target, sys.argv[4:], Scratch(sys.argv[3]))
    finally:
        if target.close is not None:
            target.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
