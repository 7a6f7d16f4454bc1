"""Runs plans, and shortens those that fail."""

from __future__ import annotations

import gc
import logging
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from broker_cy.control.image import committed_metadata
from broker_cy.coordinator.txn import end, init, state
from broker_cy.coordinator_services import share_persister
from broker_cy.storage import flusher
from broker_cy.storage.moves import replica_moves
from tests.sim.world.blocking import REPLAY_BYTES
from tests.sim.world.draws import Trace
from tests.sim.world.plan import EVERYTHING, Plan, plan_of
from tests.sim.world.world import World

# A file system in memory: on other file systems every sync would reach a disk.
MEMORY = "/dev/shm"
# The unnoted bytes after which the written point of a log is noted. Logs are smaller here than in production.
NOTE_LOG_BYTES = 300
# The epochs of a transactional producer run out earlier than in production (32,767).
EPOCH_MAX = 9
# Moves between disks copy in many steps, as those of large logs do.
MOVED_BYTES = {"STEP_BYTES": 1_500, "CAUGHT_UP_BYTES": 200, "CACHED_BYTES": 4_000, "SYNCED_BYTES_MAX": 1_000}
# A write of share state fails after fewer attempts, and shorter pauses, than in production (5 and 1 s).
PERSISTER_ATTEMPTS, PERSISTER_PAUSE_S = 2, 0.1
# The largest number of worlds that one search for a smaller plan runs.
ATTEMPTS_MAX = 120


# The threshold of the garbage collector: worlds create many objects, and few of them are garbage in cycles.
GARBAGE_OBJECTS = 20_000


@contextmanager
def collecting_seldom(objects: int = GARBAGE_OBJECTS) -> Iterator[None]:
    """Collect garbage whenever there are `objects` more objects (0: never), which saves a tenth of the time. Garbage of
    worlds holds open files, so it is collected afterwards.
    """
    before = gc.get_threshold()
    gc.set_threshold(objects, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.collect()


@dataclass(frozen=True)
class Result:
    """How a world ended."""

    plan: Plan
    failure: BaseException | None
    # The digest of all draws and events.
    digest: str
    draws: int
    steps: int
    virtual_s: float
    acked: int
    reads: int

    @property
    def signature(self) -> tuple[str, str]:
        """The common properties of failures with the same defect: the type, and the function that raised it."""
        assert self.failure is not None
        frames = traceback.extract_tb(self.failure.__traceback__)
        return type(self.failure).__name__, frames[-1].name if frames else ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Without log lines, with notes of small logs, few epochs, metadata that are applied in small pieces, moves between
    disks in many steps, and writes of share state that fail soon.
    """
    patch = pytest.MonkeyPatch()
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    patch.setattr(flusher, "NOTE_LOG_BYTES", NOTE_LOG_BYTES)
    patch.setattr(committed_metadata, "REPLAY_BYTES", REPLAY_BYTES)
    for module in (state, init, end):
        patch.setattr(module, "EPOCH_MAX", EPOCH_MAX)
    for name, value in MOVED_BYTES.items():
        patch.setattr(replica_moves, name, value)
    patch.setattr(share_persister, "ATTEMPTS", PERSISTER_ATTEMPTS)
    patch.setattr(share_persister, "PAUSE_S", PERSISTER_PAUSE_S)
    try:
        yield
    finally:
        patch.undo()
        logging.disable(before)


def run_plan(plan: Plan, trace: Trace | None = None) -> Result:
    """Run one world to its end, or to its failure."""
    trace = trace or Trace()
    failure: BaseException | None = None
    with _quiet(), tempfile.TemporaryDirectory(dir=MEMORY, prefix="world-") as root:
        world = World(plan, root, trace)
        try:
            world.run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
    return Result(
        plan,
        failure,
        trace.hexdigest(),
        trace.count,
        world.steps,
        world.time.now_us / 1e6,
        world.acked,
        world.reads,
    )


def run_seed(seed: int, profile: str = EVERYTHING) -> Result:
    return run_plan(plan_of(seed, profile))


def shrink(found: Result, report: Callable[[Result], object] = lambda found: None) -> Result:
    """Return the smallest plan found that fails in the same way: fewer faults, then fewer clients, then less time. The
    administrators stay, because the other clients need topics.
    """
    attempts = 0

    def still_fails(plan: Plan) -> bool:
        nonlocal found, attempts
        if attempts >= ATTEMPTS_MAX:
            return False
        attempts += 1
        again = run_plan(plan)
        if again.failure is None or again.signature != signature:
            return False
        found = again
        report(found)
        return True

    signature = found.signature
    _drop(found.plan.faults, lambda dropped: still_fails(found.plan.without_faults(dropped)))
    _drop(found.plan.later, lambda dropped: still_fails(found.plan.without_later(dropped)))
    _drop(found.plan.workers, lambda dropped: still_fails(found.plan.without_workers(dropped)))
    while found.plan.duration_us > 50_000:
        if not still_fails(replace(found.plan, duration_us=found.plan.duration_us // 2)):
            break
    return found


def _drop(parts: tuple[object, ...], try_without: Callable[[set[int]], bool]) -> None:
    """Try to leave out all parts, then halves of them, and so on to single ones."""
    left = len(parts)
    size = left
    while size:
        at = 0
        while at < left:
            dropped = set(range(at, min(at + size, left)))
            if try_without(dropped):
                left -= len(dropped)
            else:
                at += size
        size //= 2
