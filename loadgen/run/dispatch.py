"""How locust spreads the users of a run over its workers."""

from __future__ import annotations

from locust.dispatch import UsersDispatcher


class FixedWorkers(UsersDispatcher):
    """Keeps the workers that a run began with. Locust would move users to a worker that comes later, which has no plan,
    and stop them on the others in the middle of their requests.
    """

    def add_worker(self, worker_node: object) -> None:
        """Ignore a worker that comes during a run; the conductor informs it."""

    @property
    def dispatch_in_progress(self) -> bool:
        """Always True: locust begins no other distribution when workers come or go."""
        return True
