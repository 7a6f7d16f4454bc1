"""The members of one consumer group, each a confluent-kafka process, which join, leave and are killed."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from bench.drivers.base import DriverError
from bench.measuring.stalls import Took
from bench.wire.endpoint import Endpoint, for_librdkafka

READY_TIMEOUT_S = 60.0  # for a group to assign its partitions: it waits for the session of a killed member to expire
SETTLE_S = 0.3  # an assignment that has not changed for this long is final
LEAVE_TIMEOUT_S = 10.0
POLL_S = 0.02
COMMIT_MS = 100  # how far behind the committed offset may be: these records are consumed again after a kill
ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
_ROOT = Path(__file__).resolve().parents[2]


class Member:
    """One process, and the thread that reads its output."""

    def __init__(self, settings: dict[str, object], topic: str, taken: list[Took]) -> None:
        self.partitions = 0
        self.failed: str | None = None
        self.ending = False  # on request
        self._taken = taken  # of all members; threads only append to it
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.drivers.group_member", topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            process_group=0,  # Ctrl-C in a terminal is for the parent
        )
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `check` reports that it has ended
            self.process.stdin.write(json.dumps(settings) + "\n")
            self.process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "took":
                with contextlib.suppress(ValueError, TypeError):  # the last line of a killed member may be cut
                    self._taken.append(Took(*map(int, rest.split())))
            elif word == "assigned":
                self.partitions = int(rest)
            elif word == "failed":
                self.failed = rest

    def check(self) -> None:
        """Raise DriverError if the member failed or ended without a request."""
        if self.failed is None and not self.ending and self.process.poll() is not None:
            self.failed = f"the process ended with {self.process.returncode}"
        if self.failed is not None:
            raise DriverError(f"member of the group: {self.failed}")

    def leave(self) -> None:
        """Let the member leave in order; `end` waits for it."""
        self.ending = True
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """Kill the process with SIGKILL: the group notices when the session times out."""
        self.ending = True
        self.process.kill()

    def end(self) -> None:
        """Wait until the process has ended and all its output is read."""
        if not self.ending:
            self.leave()
        try:
            self.process.wait(LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Group:
    """One group and its members. `taken` grows while members consume."""

    def __init__(
        self, address: tuple[str, int], topic: str, partitions: int, session_timeout_s: float, assignor: str
    ) -> None:
        self.topic, self.partitions = topic, partitions
        self.taken: list[Took] = []
        self.members: list[Member] = []  # the current members, the newest last
        self._gone: list[Member] = []
        self._settings: dict[str, object] = {
            **for_librdkafka(address),
            "bootstrap.servers": Endpoint(*address).text,
            "group.id": f"broker-bench-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": round(session_timeout_s * 1000),
            # A third of it, as Kafka's documentation recommends: a member learns of a rebalance by a heartbeat.
            "heartbeat.interval.ms": round(min(3.0, session_timeout_s / 3) * 1000),
            "log_level": 2,
        }

    def join(self) -> None:
        """Add a member."""
        self.members.append(Member(self._settings, self.topic, self.taken))

    def leave(self) -> None:
        """Let the newest member leave in order."""
        self._gone.append(self.members.pop())
        self._gone[-1].leave()

    def kill(self) -> None:
        """Kill the newest member."""
        self._gone.append(self.members.pop())
        self._gone[-1].kill()

    def check(self) -> None:
        """Raise DriverError if a member failed."""
        for member in self.members:
            member.check()

    def await_assigned(self, go_on: Callable[[], None]) -> None:
        """Wait until the current members have all partitions. Raises DriverError, and the exceptions of `go_on`."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        settled_at = None
        while settled_at is None or time.monotonic() < settled_at:
            go_on()
            self.check()
            shares = [member.partitions for member in self.members]
            if sum(shares) != self.partitions or (0 in shares and len(shares) <= self.partitions):
                settled_at = None
            elif settled_at is None:
                settled_at = time.monotonic() + SETTLE_S
            if time.monotonic() > deadline:
                raise DriverError(f"the group did not assign its partitions within {READY_TIMEOUT_S:g} s: {shares}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """End all members."""
        for member in self.members:
            member.leave()
        for member in (*self._gone, *self.members):
            member.end()
        self._gone, self.members = [], []
