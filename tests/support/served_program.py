"""A program of this repository in a process of its own, which ends as an operator or a crash ends it."""

from __future__ import annotations

import signal

from broker_cy.launch.processes import Child

STOP_S = 30.0


class ServedProgram:
    """`child` is the process."""

    child: Child

    def stop(self) -> None:
        """End it as an operator does; it must end without a traceback."""
        self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(STOP_S)
        finally:
            self.child.kill()
        said = self.child.stdout() + self.child.stderr()
        assert code == 0, said
        assert "Traceback" not in said, said

    def kill(self) -> None:
        """End it as a crash does."""
        self.child.kill()
