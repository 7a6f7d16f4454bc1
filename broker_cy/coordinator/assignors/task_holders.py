"""The processes and members of a streams group while tasks are assigned to them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar

Task = tuple[str, int]  # subtopology id, partition


class Holder:
    """A process or a member. Holders with equal load have the order of their indexes."""

    __slots__ = ("count", "index", "load")

    def __init__(self, index: int) -> None:
        self.index = index
        self.count = 0  # tasks
        self.load = 0.0


HolderT = TypeVar("HolderT", bound=Holder)


class LeastLoaded(Generic[HolderT]):
    """A queue with the lowest load first. The load of a holder changes only between `pop` and `push`."""

    __slots__ = ("_heap",)

    def __init__(self, holders: Iterable[HolderT]) -> None:
        self._heap = [(holder.load, holder.index, holder) for holder in holders]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def pop(self) -> HolderT:
        return heapq.heappop(self._heap)[2]

    def push(self, holder: HolderT) -> None:
        heapq.heappush(self._heap, (holder.load, holder.index, holder))


class Process(Holder):
    """A process has a task once, in one of its members. Its load is its tasks per member."""

    __slots__ = ("_by_load", "members", "tasks")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.members: list[Member] = []
        self.tasks: set[Task] = set()
        self._by_load: LeastLoaded[Member] | None = None  # made when it is needed

    def add_member(self) -> Member:
        member = Member(len(self.members), self)
        self.members.append(member)
        return member

    def add(self, member: Member, task: Task, is_active: bool) -> int:
        """Give a task to this member; return how many it has now."""
        self._by_load = None  # the member stands elsewhere in the queue now
        return self._add(member, task, is_active)

    def add_to_least_loaded(self, task: Task, is_active: bool) -> int:
        """Give a task to the member with the fewest tasks; return how many it has now."""
        if self._by_load is None:
            self._by_load = LeastLoaded(self.members)
        member = self._by_load.pop()
        count = self._add(member, task, is_active)
        self._by_load.push(member)
        return count

    def _add(self, member: Member, task: Task, is_active: bool) -> int:
        self.tasks.add(task)
        self.count += 1
        self.load = self.count / len(self.members)
        member.count += 1
        member.load = float(member.count)
        (member.active if is_active else member.standby).append(task)
        return member.count


class Member(Holder):
    """One member, which is a thread of its process."""

    __slots__ = ("active", "process", "standby")

    def __init__(self, index: int, process: Process) -> None:
        super().__init__(index)
        self.process = process
        self.active: list[Task] = []
        self.standby: list[Task] = []
