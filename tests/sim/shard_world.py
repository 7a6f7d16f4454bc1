"""A parent and its shards on one virtual clock: processes that die, stand still, start slowly, fail to start or say
that they are a shard which another process is; parents that are killed, and others that adopt. Everything is drawn
from one seed, and what the supervisor does is checked after each event.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from broker_cy.core import supervision as core
from broker_cy.core.supervision import Phase
from broker_cy.shards import supervisor as sup
from broker_cy.shards.supervisor import ShardSupervisor

RUN_MS = 300_000
# A shard may be without a process for so long while the parent does not stop: the longest pause of a restart.
ABSENT_MS_MAX = core.BACKOFF_MS_MAX + 1
# From the request to stop: two shards one after the other are killed after STOP_MS, in the worst case.
STOPPED_MS_MAX = 2 * sup.STOP_MS + 1_000


@dataclass
class Process:
    shard: int
    pid: int
    epoch: int = -1
    ready: bool = False
    asked: bool = False  # SIGTERM
    killed: bool = False
    frozen: bool = False
    unnoticed_ms: int = 0  # since when it stands still under the present parent
    is_current: bool = True
    stranger: bool = False


class World:
    """`run` raises AssertionError if the supervisor is wrong."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.count = draw.randint(1, 5)
        self.has_controller = draw.random() < 0.7
        self.now_ms = 0
        self.often_ms = draw.choice([500, 5_000, 100_000])
        self.start_fails = draw.choice([0.0, 0.0, 0.3, 0.97])
        self.is_calm_at_stop = draw.random() < 0.5  # hanging shards are not killed
        self.hangs = draw.choice([0.0, 0.2])  # stops that do not end
        self.processes: dict[int, Process] = {}
        self.supervisor: ShardSupervisor
        self.parent = 0  # the number of the parent
        self.told: set[tuple[int, int]] = set()
        self.absent_since: dict[int, int] = {}
        self.attempts: dict[int, list[int]] = {shard: [] for shard in range(self.count)}
        self.exited: int | None = None
        self.follow_up: list[sup.Event] = []  # of the actions of this turn
        self.stop_ms: int | None = None
        self.all_ready = 0
        self.restarts = self.adoptions = self.kills = self.stops = self.rolls = 0
        self._due: list[tuple[int, int, int | None, Callable[[], None]]] = []
        self._number = count()
        self._pids = count(100)
        self._epochs = count(1)

    def at(self, delay_ms: int, work: Callable[[], None], *, of_parent: bool = False) -> None:
        """`of_parent`: it is forgotten if the parent is killed."""
        owner = self.parent if of_parent else None
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._number), owner, work))

    def run(self) -> None:
        self.new_parent()
        self.at(self.draw.randint(1, self.often_ms), self.disturb)
        self.at(self.draw.randint(1, RUN_MS), self.ask_to_stop)
        while self._due and self.exited is None:
            at_ms, _, owner, work = heapq.heappop(self._due)
            self.now_ms = at_ms
            if owner in (None, self.parent):
                work()
            self.check()
        assert self.exited is not None, "the parent never ends"
        assert not any(not process.stranger for process in self.processes.values()), "a shard outlives its parent"

    # --- the parent

    def new_parent(self) -> None:
        self.parent += 1
        self.supervisor = ShardSupervisor(self.count, has_controller=self.has_controller)
        self.all_ready = 0
        self.attempts = {shard: [] for shard in range(self.count)}
        running = {each.shard: each.pid for each in self.processes.values() if not each.stranger}
        self.adoptions += len(running)
        self.absent_since = {shard: self.now_ms for shard in range(self.count) if shard not in running}
        self.follow_up = []
        self.do(self.supervisor.begin(running, self.now_ms))
        while self.follow_up:
            self.do(self.supervisor.take(self.follow_up.pop(0), self.now_ms))
        for process in list(self.processes.values()):
            process.unnoticed_ms = self.now_ms
            process.is_current = process.is_current and self.draw.random() < 0.8
            if not process.frozen:
                self.at(self.draw.randint(1, 1_000), partial(self.hello, process), of_parent=True)
        self.clock()

    def clock(self) -> None:
        due_ms = self.supervisor.next_ms()
        if due_ms is not None:
            self.at(max(0, due_ms - self.now_ms), lambda: self.take(core.Clock()), of_parent=True)

    def take(self, event: sup.Event) -> None:
        self.follow_up = [event]
        while self.follow_up:
            self.do(self.supervisor.take(self.follow_up.pop(0), self.now_ms))
        self.clock()

    def do(self, actions: list[sup.Action]) -> None:
        for action in actions:
            match action:
                case core.Spawn(shard):
                    self.spawn(shard)
                case core.Terminate(shard, pid, why):
                    self.terminate(shard, pid, why)
                case core.Kill(shard, pid, _):
                    process = self.processes.get(pid)
                    assert process is not None, f"a process is killed that is not there: {pid}"
                    assert not process.stranger, "a process is killed that is not the shard's own"
                    self.kills += 1
                    process.killed = True
                    self.at(1, partial(self.end, process, -9))
                case core.Restarting(shard, _, _, delay_ms):
                    self.restarts += 1
                    assert self.stop_ms is None, "a shard is to be started again while the parent stops"
                    assert 0 <= delay_ms <= core.BACKOFF_MS_MAX
                case sup.TellEnded(shard, epoch):
                    assert (shard, epoch) not in self.told, "an end is reported twice"
                    assert all(each.epoch != epoch for each in self.processes.values()), "an end is reported too early"
                    self.told.add((shard, epoch))
                case core.AllReady():
                    self.all_ready += 1
                    assert self.all_ready == 1, "the parent is ready twice"
                    ready = {each.shard for each in self.processes.values() if each.ready and not each.stranger}
                    assert ready == set(range(self.count)), "the parent is ready before its shards"
                case core.Exit(code):
                    assert not [each for each in self.processes.values() if not each.stranger], "a shard is left"
                    self.exited = code

    def spawn(self, shard: int) -> None:
        assert self.stop_ms is None, "a shard is started while the parent stops"
        here = [each for each in self.processes.values() if each.shard == shard and not each.stranger]
        assert not here, "a second process of one shard is started"
        attempts = self.attempts[shard]
        attempts.append(self.now_ms)
        # The pause doubles, from 100 ms to 10 s: 8 starts in ten seconds, and as many after one that lasted.
        recent = [at_ms for at_ms in attempts if at_ms > self.now_ms - core.BACKOFF_MS_MAX]
        assert len(recent) <= 16, f"shard {shard} is started {len(recent)} times in {core.BACKOFF_MS_MAX} ms"
        if self.draw.random() < 0.02:
            self.absent_since[shard] = self.now_ms
            self.follow_up.append(core.SpawnFailed(shard))
            return
        process = Process(shard, next(self._pids))
        self.processes[process.pid] = process
        self.absent_since.pop(shard, None)
        self.follow_up.append(core.Started(shard, process.pid))
        if self.draw.random() < self.start_fails and self.all_ready:
            self.at(self.draw.randint(1, 500), lambda: self.end(process, 1))
        else:
            self.at(self.draw.randint(1, 2_000), lambda: self.hello(process))

    def terminate(self, shard: int, pid: int, why: str) -> None:
        process = self.processes.get(pid)
        if process is None:
            return
        if not process.stranger and self.stop_ms is not None and self.has_controller and shard == 0:
            others = [each for each in self.processes.values() if each.shard != 0 and not each.stranger]
            assert not others, "the controller is stopped before those that need it"
        if "other settings" in why:
            self.rolls += 1
            others = [each for each in self.processes.values() if not each.stranger and each.pid != pid]
            assert all(each.ready for each in others), "two shards are replaced at once"
        self.stops += 1
        process.asked = True
        if not process.frozen and self.draw.random() >= self.hangs:
            self.at(self.draw.randint(1, 12_000), lambda: self.end(process, 0))

    # --- the shards

    def hello(self, process: Process) -> None:
        if process.pid not in self.processes or process.frozen:
            return
        self.take(sup.Hello(process.shard, process.pid, process.is_current))
        if not process.stranger:
            delay_ms = 1 if process.ready else self.draw.randint(1, 5_000)
            self.at(delay_ms, lambda: self.ready(process), of_parent=True)

    def ready(self, process: Process) -> None:
        if process.pid not in self.processes or process.frozen:
            return
        if process.epoch < 0:
            process.epoch = next(self._epochs)
        process.ready = True
        self.take(core.Ready(process.shard, process.pid))

    def end(self, process: Process, code: int) -> None:
        if self.processes.pop(process.pid, None) is None or process.stranger:
            return
        self.absent_since[process.shard] = self.now_ms
        before = len(self.told)
        self.take(sup.Ended(process.shard, process.pid, code, process.epoch))
        if process.epoch >= 0 and self.stop_ms is None:
            assert len(self.told) == before + 1, "the others do not hear of an end"

    # --- what happens to them

    def disturb(self) -> None:
        self.at(self.draw.randint(1, self.often_ms), self.disturb)
        mine = [each for each in self.processes.values() if not each.stranger]
        victim = self.draw.choice(mine) if mine else None
        if self.stop_ms is not None and self.is_calm_at_stop:
            return
        match self.draw.choice(["kill", "kill", "exit", "freeze", "stranger", "parent"]):
            case "kill" if victim:
                self.end(victim, -9)
            case "exit" if victim and self.all_ready:
                self.end(victim, self.draw.choice([0, 1]))
            case "freeze" if victim and not victim.frozen:
                victim.frozen, victim.unnoticed_ms = True, self.now_ms
                self.at(self.draw.randint(500, 1_000), lambda: self.still(victim), of_parent=True)
                if self.draw.random() < 0.3 and self.stop_ms is None:
                    # The parent is killed before it notices; how the next one sees it follows from nothing but silence.
                    self.new_parent()
            case "stranger":
                process = Process(self.draw.randrange(self.count), next(self._pids), stranger=True)
                self.processes[process.pid] = process
                self.hello(process)
                assert process.asked, "a second process of a shard goes on"
                self.end(process, 0)
            case "parent" if self.stop_ms is None:
                self.new_parent()

    def still(self, process: Process) -> None:
        if process.pid in self.processes:
            self.take(sup.Still(process.shard, process.pid, "stands still"))
            assert process.killed, "a shard that stands still is not killed"

    def ask_to_stop(self) -> None:
        if self.stop_ms is None:
            self.stop_ms = self.now_ms
            self.take(core.StopAsked())

    def check(self) -> None:
        if self.stop_ms is None and self.supervisor.is_stopping:
            # The first start failed; that also counts as a clean stop.
            self.stop_ms = self.now_ms
        if self.stop_ms is not None:
            assert self.exited is not None or self.now_ms - self.stop_ms <= STOPPED_MS_MAX, "the stop does not end"
            return
        for process in self.processes.values():
            silent_ms = self.now_ms - process.unnoticed_ms if process.frozen and not process.killed else 0
            assert silent_ms <= sup.HELLO_MS, f"shard {process.shard} stands still, and nobody notices"
        for shard, since_ms in self.absent_since.items():
            assert self.now_ms - since_ms <= ABSENT_MS_MAX, f"shard {shard} is not started again"
        for shard, slot in enumerate(self.supervisor.slots):
            mine = [each.pid for each in self.processes.values() if each.shard == shard and not each.stranger]
            if slot.pid and not slot.pending and slot.phase is not Phase.WAITING:
                assert mine == [slot.pid], f"shard {shard} is taken for another process"
