"""The distribution of a run's users over locust's workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from locust.dispatch import UsersDispatcher


@dataclass(frozen=True)
class _Node:
    """The part of a worker that locust needs to remove users again."""

    id: str


class FixedWorkers(UsersDispatcher):
    """Gives each worker its share of each class, and keeps the workers that a run began with.

    Locust distributes users of all classes in turn, so that a worker may get all users of one class and none of
    another. It would also move users to a worker that connects later and has no plan, and stop them on the others
    during their requests. `worker_of` returns the id of the worker for a class and the number of its user.
    """

    def __init__(self, worker_nodes: Any, user_classes: Any, worker_of: Callable[[str, int], str]) -> None:
        super().__init__(worker_nodes, user_classes)
        self._worker_of = worker_of
        self._given: dict[str, int] = {each.__name__: 0 for each in user_classes}

    def _add_users_on_workers(self) -> dict[str, dict[str, int]]:
        """Assign the users of this iteration to their workers."""
        until = min(self._current_user_count + self._user_count_per_dispatch_iteration, self._target_user_count)
        while self._current_user_count < until:
            name = next(self._user_generator)
            if not name:
                self._no_user_to_spawn = True
                break
            worker = self._worker_of(name, self._given[name])
            given = self._users_on_workers.setdefault(worker, dict.fromkeys(self._given, 0))
            given[name] += 1
            self._given[name] += 1
            self._current_user_count += 1
            self._active_users.append((_Node(worker), name))  # type: ignore[arg-type]
        return self._users_on_workers

    def add_worker(self, worker_node: object) -> None:
        """Ignore a worker that connects during a run; the conductor informs it."""

    def remove_worker(self, worker_node: object) -> None:
        """Leave the others unchanged; the conductor notes the loss."""

    @property
    def dispatch_in_progress(self) -> bool:
        """Always True: locust begins no other distribution when workers come or go."""
        return True
