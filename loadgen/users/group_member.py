"""Users that are members of a consumer group: `group-member`.

Each polls, commits every `commit_every`, and with `churn` leaves, is killed or pauses at random times. The events of a
group have exponentially distributed intervals with the mean `churn_every`; those of each of its n members have n times
that mean.
"""

from __future__ import annotations

import random
import time
import uuid

import gevent

from broker_cy.client.consumer_member import ConsumerMember, ConsumerProtocol
from broker_cy.client.epoch_member import EpochMember
from broker_cy.client.group_member import MemberSettings
from loadgen.net.cluster import Cluster
from loadgen.users.base import LoadUser
from loadgen.users.fetching import Fetcher
from loadgen.users.groups import Session
from loadgen.users.settings import Churning, Fetching, Member, settings_of


class GroupUser(LoadUser):
    """A user with a Session and a Fetcher: the base of all members of groups."""

    abstract = True
    # Whether offsets are committed with OffsetCommit.
    commits = True
    cluster: Cluster
    fetcher: Fetcher
    session: Session

    def connect(self) -> None:
        self.fetching, self.member = settings_of(Fetching, self.spec), settings_of(Member, self.spec)
        self.cluster = self.new_cluster()
        self.fetcher = Fetcher(self.shared.work, self.cluster, self.fetching)
        topic = self.fetcher.topic
        settings = MemberSettings(
            self.group,
            self.member.session_timeout_ms,
            self.member.heartbeat_interval_ms,
            self.member.rebalance_timeout_ms,
            f"{self.spec.name}-{self.place}" if self.member.static else None,
        )
        member = self._new_member(settings, topic)
        partitions = len(self.cluster.partitions(topic))
        self.session = Session(self, member, self.fetcher, self.fetching, partitions, commits=self.commits)
        # The coordinator waits for dead members of an earlier run until their sessions end.
        self.session.start(self.load.plan.scenario.timeout_s + self.member.session_timeout_ms / 1000)

    def _new_member(self, settings: MemberSettings, topic: str) -> ConsumerMember:
        if self.member.protocol == "classic":
            return ConsumerMember(settings, ConsumerProtocol([topic], [self.member.assignor]))
        names = {each.topic_id: each.name or topic for each in self.cluster.refresh([topic]).topics}
        return EpochMember(settings, [topic], names, lambda: str(uuid.uuid4()))

    @property
    def group(self) -> str:
        """The group of this user."""
        return self.member.group

    def disconnect(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
        if hasattr(self, "fetcher"):
            self.fetcher.close()
        if hasattr(self, "cluster"):
            self.cluster.close()


class GroupMember(GroupUser):
    """Polls, commits, and churns."""

    abstract = True

    def connect(self) -> None:
        self.churning = settings_of(Churning, self.spec)
        self._random = random.Random(f"churn {self.load.plan.scenario.seed} {self.spec.name} {self.place}")
        self._commit_s = 0.0
        super().connect()

    @property
    def group(self) -> str:
        groups = self.churning.groups
        return self.member.group if groups == 1 else f"{self.member.group}-{self.place % groups}"

    def drive(self) -> None:
        churn = None if self.churning.churn == "none" else gevent.spawn(self._churn)
        try:
            super().drive()
        finally:
            if churn is not None:
                churn.kill()
            self.session.resume()
            self.session.come_back()

    def perform(self, due_ns: int) -> None:
        if not self.session.await_part():
            return
        self.fetcher.poll(self.wait_ms(self.fetching.max_wait_ms))
        if self.session.ready.is_set():
            self.session.consumed = dict(self.fetcher.positions)
        now_s = time.monotonic()
        if now_s >= self._commit_s:
            self._commit_s = now_s + self.churning.commit_every
            self.session.commit()

    def _churn(self) -> None:
        """Disturb the group at random times until the round ends."""
        settings, session = self.churning, self.session
        members = max(1.0, self.spec.count / settings.groups)
        while self.sleep(self._random.expovariate(1 / (settings.churn_every * members))):
            if settings.churn == "pause":
                session.pause()
                self.sleep(settings.pause_for)
                session.resume()
                continue
            if settings.churn == "leave":
                session.leave()
            else:
                session.kill()
                self.cluster.close()
            self.sleep(settings.rejoin_after)
            session.come_back()
