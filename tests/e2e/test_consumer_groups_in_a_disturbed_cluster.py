"""Three processes, and a group whose members use the consumer protocol (KIP-848): the brokers are killed in turn, each
of them also as the coordinator of the group.

Afterwards committed offsets never went back, and the members have read every acknowledged record
(tests/history/checker.py). No death of a broker changes the group.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.e2e.test_disturbed_cluster import Disturbances, kill
from tests.history.cluster_clients import ConsumerMember, Member
from tests.history.cluster_work import MEMBERS, WAIT_S, at
from tests.support.cluster import DISTURBED, ask, cluster
from tests.support.wait import until

GROUP = 0
COUNT = 3
# Short heartbeats: a rebalance takes a few of them.
SETTINGS = {
    **DISTURBED,
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
}
Described = messages.ConsumerGroupDescribeResponse.DescribedGroup


class ConsumerWork(Disturbances):
    """The clients, with members of the consumer protocol."""

    members: list[Member]
    # The members so far: each has a name of its own in the history.
    started = 0

    def new_member(self) -> Member:
        self.started += 1
        return ConsumerMember(f"member{self.started}", self.servers, self.recorder, "in", MEMBERS)

    def new_members(self) -> list[Member]:
        return [self.new_member() for _ in range(COUNT)]

    def stable(self, after: int = 0) -> Described:
        """The group, as soon as it is stable with all members in a later epoch than `after`."""
        request = messages.ConsumerGroupDescribeRequest(group_ids=[MEMBERS])
        last: list[Described] = []

        def found() -> Described | None:
            self.check_clients()
            node = self.coordinator(MEMBERS, GROUP)
            group = ask(at(node), request, messages.ConsumerGroupDescribeResponse).groups[0]
            last[:] = [group]
            is_stable = group.error_code == ErrorCode.NONE and group.group_state == "Stable"
            return group if is_stable and len(group.members) == COUNT and group.group_epoch > after else None

        try:
            return until(found, "a stable group", WAIT_S, 0.1, tolerate=(ClientError,))
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from error

    def replace_member(self) -> None:
        """A member leaves, and another one joins."""
        before = self.stable()
        gone, added = self.members[0], self.new_member()
        gone.finish()
        self.clients = [added if each is gone else each for each in self.clients]
        added.seen |= gone.seen
        self.members = [*self.members[1:], added]
        added.start()
        after = self.stable(before.group_epoch)
        assert len({each.member_id for each in before.members + after.members}) == COUNT + 1


def epochs(group: Described) -> tuple[int, int, dict[str, int]]:
    """The epochs of a group, and those of its members."""
    members = {each.member_id: each.member_epoch for each in group.members}
    return group.group_epoch, group.assignment_epoch, members


@pytest.mark.full
@pytest.mark.timeout(900)
def test_members_of_the_consumer_protocol_outlive_each_broker(tmp_path: Path) -> None:
    """If this fails, an application with group.protocol=consumer loses offsets or records, or rebalances, when a broker
    dies.
    """
    with cluster(tmp_path, settings=SETTINGS) as nodes:
        work = ConsumerWork(nodes)
        try:
            for node in nodes:
                before = epochs(work.stable())
                work.disturb("a broker is killed", node, kill)
                assert epochs(work.stable()) == before
                work.replace_member()
            for _ in range(2):
                before = epochs(work.stable())
                work.disturb("the coordinator is killed", work.coordinator(MEMBERS, GROUP), kill)
                assert epochs(work.stable()) == before
            work.finish()
            for node in nodes:
                assert "Traceback" not in node.stderr(), node.stderr()
        finally:
            work.stop()
