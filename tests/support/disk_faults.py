"""The failing operations of a disk, with their errno: a part of the simulated disk of tests/support/power.py."""

from __future__ import annotations

import errno
import os
import random

from broker_cy.storage import disk

# Kinds of failing operations: fsync and similar calls; writing bytes; creating a file or directory; renaming or
# removing one; truncating a file.
SYNC, WRITE, CREATE, NAME, TRUNCATE = "sync", "write", "create", "name", "truncate"
KINDS = (SYNC, WRITE, CREATE, NAME, TRUNCATE)
ERRORS = (errno.EIO, errno.ENOSPC)
# The most bytes that the C code still writes after writes begin to fail.
BUDGET_MAX_BYTES = 600
# The argument of disk.set_write_budget for a disk without a limit.
UNLIMITED = (-1, 0)


class Faults:
    """Operations of the kinds in `errors` fail with a probability of `chance`, until `end`.

    The writes of segments and indexes are made in C, which counts bytes: those fail after a random number of bytes.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.errors: dict[str, int] = {}
        self.chance = 0.0
        # Operations that failed since the simulation began; those in C are not counted.
        self.failed = 0

    @property
    def active(self) -> bool:
        return bool(self.errors)

    def begin(self) -> None:
        """Make one or more kinds of operations fail, each with its own errno."""
        draw = self.draw
        kinds = draw.sample(KINDS, draw.choice([1, 1, 2, 3, len(KINDS)]))
        self.errors = {kind: draw.choice(ERRORS) for kind in sorted(kinds)}
        self.chance = draw.choice([0.1, 0.4, 1.0])
        if WRITE in self.errors:
            self.limit(draw.choice([0, draw.randint(1, BUDGET_MAX_BYTES)]), self.errors[WRITE])

    def fill(self) -> None:
        """Make the disk full: every write fails, and operations that need no bytes succeed."""
        self.errors, self.chance = {WRITE: errno.ENOSPC}, 1.0
        self.limit(0, errno.ENOSPC)

    def end(self) -> None:
        """Make every operation succeed again."""
        self.errors = {}
        self.limit(*UNLIMITED)

    def limit(self, size_bytes: int, code: int) -> None:
        """Let C code write so many bytes, and fail afterwards; -1: let it write any number."""
        disk.set_write_budget(size_bytes, code)

    def happens(self, kind: str) -> bool:
        """Whether this operation of that kind fails."""
        if kind in self.errors and self.draw.random() < self.chance:
            self.failed += 1
            return True
        return False

    def error(self, kind: str, path: object = None) -> OSError:
        code = self.errors[kind]
        return OSError(code, os.strerror(code), path)

    def check(self, kind: str, path: object = None) -> None:
        """Raise the OSError of this operation, if it fails."""
        if self.happens(kind):
            raise self.error(kind, path)
