"""`broker-mirror start` as a process, with its status page at a free port."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, status_of
from broker_cy.launch.processes import Child
from tests.support.served_program import ServedProgram
from tests.support.wait import until

READY_S = 60.0
STATE_S = 90.0
_READY = re.compile(r'(?:status at |"url": ")(http://[^\s"]+)')


class MirrorProcess(ServedProgram):
    """One process; it runs the file with `properties`."""

    def __init__(
        self, properties: Mapping[str, str], directory: Path, name: str = "mirror", options: Sequence[str] = ()
    ) -> None:
        self.file = directory / f"{name}.properties"
        given = {**properties, "brokercy.mirror.listener": "127.0.0.1:0"}
        self.file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        command = [sys.executable, "-m", "broker_mirror", "start", str(self.file), *options]
        self.child = Child(command, directory, name)
        self.url = ""

    def wait(self) -> MirrorProcess:
        def ready() -> re.Match[str] | None:
            assert self.child.returncode is None, self.child.tail()
            return _READY.search(self.child.stdout())

        self.url = until(ready, "the mirror to serve its status", READY_S)[1]
        return self

    def get(self, page: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{page}", timeout=STATE_S) as answer:
            body = answer.read()
        assert isinstance(body, bytes)
        return body

    def status(self) -> MirrorStatus:
        return status_of(json.loads(self.get("/status")))

    def flow(self, name: str) -> FlowStatus:
        """Return the flow A->B by its name."""
        return next(each for each in self.status().flows if f"{each.source}->{each.target}" == name)

    def until(self, name: str, condition: Callable[[FlowStatus], bool], what: str) -> FlowStatus:
        """Wait until the status of a flow fulfils a condition."""
        found = [self.flow(name)]

        def holds() -> bool:
            found[0] = self.flow(name)
            return condition(found[0])

        try:
            until(holds, what, STATE_S)
        except AssertionError:
            raise AssertionError(f"{what}: {found[0]}, {self.child.tail()}") from None
        return found[0]


@contextmanager
def running_mirror(
    properties: Mapping[str, str], directory: Path, name: str = "mirror", options: Sequence[str] = ()
) -> Iterator[MirrorProcess]:
    mirror = MirrorProcess(properties, directory, name, options)
    try:
        yield mirror.wait()
        mirror.stop()
    finally:
        mirror.kill()
