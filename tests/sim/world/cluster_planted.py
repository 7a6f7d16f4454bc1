"""Defects of a cluster that worlds of the profile `cluster` have to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from broker_cy.access.tokens import Tokens
from broker_cy.broker.client_quotas import ClientQuotas
from broker_cy.control.quorum import quorum_opening
from broker_cy.controller.partition_change import PartitionChange
from broker_cy.controller.rules import Rules
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.coordinator_services.coordinator_service import CoordinatorService
from broker_cy.coordinator_services.record_writer import RecordWriter
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.records import VersionedRecord
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.quorum import changes, elections
from broker_cy.quorum.history import BEFORE_THE_LOG, VoterHistory, VotersAt
from broker_cy.quorum.state import QuorumState
from broker_cy.quorum.step import ChangeVoters
from broker_cy.quorum.voters import ReplicaKey, VoterSet
from broker_cy.replica import following, leading
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.partition import Partition
from broker_cy.replica.replica import Role
from broker_cy.replication.fetcher import FetcherId
from broker_cy.replication.fetcher_manager import ReplicaFetcherManager
from broker_cy.security.authorizer import Authorizer, Patterns
from broker_cy.storage.directory_failures import DirectoryFailures
from broker_cy.storage.log import Log
from broker_cy.storage.log_manager import LogManager
from tests.sim import quorum_defects
from tests.sim.world.loop import SimLoop
from tests.sim.world.plan import (
    CLUSTER,
    CLUSTER_DATA_DISKS,
    CLUSTER_ROLES,
    CLUSTER_SECURED,
    CLUSTER_UNCLEAN,
    CLUSTER_VOTERS,
)
from tests.sim.world.planted import Planted

# The first one found the defect once. Other draws and other times of the broker change which one does.
SEEDS = 30


def high_watermark_is_the_leaders_end(patch: pytest.MonkeyPatch) -> None:
    """A record is committed, and acknowledged, as soon as the leader has it."""
    patch.setattr(InSync, "bound", lambda self, end_offset: end_offset)


def min_insync_replicas_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A leader that is alone acknowledges (KAFKA-15583)."""
    patch.setattr(InSync, "is_under_min", property(lambda self: False))


def nothing_is_truncated(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps what the leader of a new epoch does not have."""
    patch.setattr(following, "truncation", lambda epochs, log_end, diverging: log_end)


def diverging_logs_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A leader serves a fetch whatever the last epoch of the follower's log is."""
    right = leading.judge

    def wrong(replica: Any, log: Any, fetch: leading.FollowerFetch, has_mirrored: bool) -> leading.Verdict:
        return right(replica, log, fetch._replace(last_fetched_epoch=leading.NO_EPOCH), has_mirrored)

    patch.setattr(leading, "judge", wrong)


def empty_epochs_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    """A truncation to the end of a log leaves an epoch without records (KAFKA-10706)."""
    right = LogManager.truncate_to

    def wrong(self: LogManager, log: Log, offset: int, now_ms: int, done: Callable[[], None]) -> bool:
        return offset < log.log_end_offset and right(self, log, offset, now_ms, done)

    patch.setattr(LogManager, "truncate_to", wrong)


def logs_of_moved_partitions_stay(patch: pytest.MonkeyPatch) -> None:
    """A broker that starts keeps the log of a partition that was moved away while it was down: a topic that is created
    with that name has it.
    """

    def topic_id_of(service: PartitionService, name: str, index: int) -> UUID | None:
        topic = service._image.topics.by_name(name)
        return topic.topic_id if topic is not None else None

    patch.setattr(PartitionService, "_topic_id_of", topic_id_of)


def deposed_leaders_go_on(patch: pytest.MonkeyPatch) -> None:
    """A broker does not notice that another one leads by now."""
    right = PartitionService._assign

    def wrong(self: PartitionService, partition: Any, image: Any) -> None:
        if partition.replica.role != Role.LEADER or image.leader in (self._config.node_id, -1):
            right(self, partition, image)

    patch.setattr(PartitionService, "_assign", wrong)


def nobody_gives_up_on_followers(patch: pytest.MonkeyPatch) -> None:
    """A leader keeps a Produce request with acks=all until its followers have the records, whatever its timeout is."""
    right = SimLoop.call_later

    def wrong(self: SimLoop, delay: float, callback: Any, *args: Any) -> Any:
        is_expiry = getattr(callback, "__name__", "") == "expire_answers"
        return right(self, 1e6 if is_expiry else delay, callback, *args)

    patch.setattr(SimLoop, "call_later", wrong)


def requests_do_not_wait_for_coordinators(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that is being loaded rejects requests immediately."""
    patch.setattr(CoordinatorService, "_wait_s", lambda self, index: 0.0)


def loaded_coordinators_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    """Requests that wait for a coordinator are answered only when their time is over."""
    right = CoordinatorRuntime.load

    async def wrong(self: CoordinatorRuntime[Any, Any]) -> None:
        self.on_loaded = lambda: None
        await right(self)

    patch.setattr(CoordinatorRuntime, "load", wrong)


def who_is_far_behind_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A partition that is far behind leaves its fetcher, and is fetched by no other."""
    right = ReplicaFetcherManager._fetch

    def wrong(self: ReplicaFetcherManager, partition: Partition, fetcher_id: FetcherId) -> None:
        if not fetcher_id.is_far_behind:
            right(self, partition, fetcher_id)

    patch.setattr(ReplicaFetcherManager, "_fetch", wrong)


def observers_stay_with_their_leader(patch: pytest.MonkeyPatch) -> None:
    """A broker without the controller role does not search for another leader if its own does not answer."""
    patch.setattr(elections, "_search", lambda state: None)


# --- voters that change


def changes_are_acknowledged_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """A change of the voters is acknowledged as soon as the leader has it in its log."""
    right = changes.change

    def wrong(state: QuorumState, event: ChangeVoters) -> None:
        right(state, event)
        state.finish_change(ErrorCode.NONE)

    patch.setattr(changes, "change", wrong)


def voters_are_removed_by_id_alone(patch: pytest.MonkeyPatch) -> None:
    """A removal of a replaced disk removes the voter that has its place by now."""
    right = changes._without

    def wrong(state: QuorumState, key: ReplicaKey) -> VoterSet:
        known = state.voters.get(key.id)
        return right(state, known.key if known is not None else key)

    patch.setattr(changes, "_without", wrong)


def a_start_knows_only_the_newest_voters(patch: pytest.MonkeyPatch) -> None:
    """A leader that restarts before its own removal is committed does not know that it was a voter: it does not stand,
    and the voters that are left have shorter logs.
    """
    right = quorum_opening._history

    def wrong(config: Any, loader: Any, stored: Any) -> VoterHistory:
        found = right(config, loader, stored)
        found._entries[:-1] = [VotersAt(BEFORE_THE_LOG, 0, VoterSet())] if found.newest.offset >= 0 else []
        return found

    patch.setattr(quorum_opening, "_history", wrong)


# --- unclean elections


def any_topic_has_unclean_elections(patch: pytest.MonkeyPatch) -> None:
    """A replica that may lack records becomes the leader if no other one is available, whatever the topic allows."""
    patch.setattr(Rules, "unclean_allowed", lambda self, topic: True)


def unclean_leaders_never_recover(patch: pytest.MonkeyPatch) -> None:
    """The controller ignores the leader's report after an unclean election (KIP-704)."""
    right = PartitionChange.record

    def wrong(self: PartitionChange) -> VersionedRecord | None:
        self.recovery = self.partition.leader_recovery_state
        return right(self)

    patch.setattr(PartitionChange, "record", wrong)


# --- rights


def rights_outlive_the_rules(patch: pytest.MonkeyPatch) -> None:
    """Cached authorization decisions stay when the ACLs change."""
    patch.setattr(Authorizer, "forget", lambda self: None)


def one_rule_takes_others_with_it(patch: pytest.MonkeyPatch) -> None:
    """The removal of a rule removes all rules for the same principal and pattern (similar to CVE-2024-27309)."""
    right = Patterns.remove

    def wrong(self: Patterns, principal: str, name: str, entry: Any) -> None:
        for each in self.by_principal.get(principal, {}).get(name, ()):
            right(self, principal, name, each)

    patch.setattr(Patterns, "remove", wrong)


def prefixes_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A denial for all names with a prefix does not count."""
    right = Patterns.add

    def wrong(self: Patterns, principal: str, name: str, entry: Any) -> None:
        right(self, principal, name, entry._replace(denies=0) if name == "t" else entry)

    patch.setattr(Patterns, "add", wrong)


# --- delegation tokens


def ended_tokens_log_in(patch: pytest.MonkeyPatch) -> None:
    """Brokers accept a token that was ended, if one of them has accepted it before."""
    right, seen = Tokens.find, dict[tuple[str, bytes], Any]()

    def wrong(self: Tokens, mechanism: Any, token_id: str, salt: bytes) -> Any:
        seen[token_id, salt] = right(self, mechanism, token_id, salt) or seen.get((token_id, salt))
        return seen[token_id, salt]

    patch.setattr(Tokens, "find", wrong)


def sessions_outlive_their_token(patch: pytest.MonkeyPatch) -> None:
    """A session that logged in with a token is served after the token's end, as in Kafka."""
    patch.setattr(Tokens, "apply", lambda self, delta, image: None)


# --- quotas


def nobody_has_to_wait(patch: pytest.MonkeyPatch) -> None:
    """A client beyond its quota gets a throttle time in the answer, but is served nevertheless."""
    right = SimLoop.call_later

    def wrong(self: SimLoop, delay: float, callback: Any, *args: Any) -> Any:
        return right(self, 0.0 if getattr(callback, "__name__", "") == "unmute" else delay, callback, *args)

    patch.setattr(SimLoop, "call_later", wrong)


def quotas_are_forgotten_by_a_start(patch: pytest.MonkeyPatch) -> None:
    """A broker that starts knows only the quotas that are set afterwards."""
    right = ClientQuotas.apply

    def wrong(self: ClientQuotas, delta: Any, image: Any) -> None:
        if "has_started" in vars(self):
            right(self, delta, image)
        vars(self)["has_started"] = True

    patch.setattr(ClientQuotas, "apply", wrong)


# --- disks


def dead_disks_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A leader whose disk died still leads: each write fails for itself, as long as the process runs."""
    patch.setattr(DirectoryFailures, "suspect", lambda self, path, error: None)


# Those that worlds find, with a seed that does.
def requests_wait_for_records_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Requests to coordinators wait for as long as their records are not committed."""
    patch.setattr(RecordWriter, "_on_due", lambda self: None)


CLUSTER_PLANTED: dict[str, Planted] = (
    {
        plant.__name__: Planted(plant, SEEDS, first, CLUSTER)
        for plant, first in [
            (high_watermark_is_the_leaders_end, 0),
            (min_insync_replicas_is_ignored, 24),
            (nothing_is_truncated, 0),
            (empty_epochs_are_not_cut, 0),
            (deposed_leaders_go_on, 2),
            (nobody_gives_up_on_followers, 7),
            (requests_do_not_wait_for_coordinators, 11),
            (loaded_coordinators_wake_nobody, 15),
            (who_is_far_behind_is_forgotten, 0),
            (requests_wait_for_records_for_ever, 6),
        ]
    }
    | {
        # A broker must be down while its partitions are moved.
        logs_of_moved_partitions_stay.__name__: Planted(logs_of_moved_partitions_stay, 60, 0, CLUSTER, "kill"),
    }
    | {
        # Worlds in which all nodes are voters do not reach it.
        observers_stay_with_their_leader.__name__: Planted(observers_stay_with_their_leader, SEEDS, 0, CLUSTER_ROLES),
    }
    | {
        # Those of voters that change.
        plant.__name__: Planted(plant, SEEDS, first, CLUSTER_VOTERS)
        for plant, first in [
            (changes_are_acknowledged_before_they_are_committed, 0),
            (voters_are_removed_by_id_alone, 0),
            (a_start_knows_only_the_newest_voters, 0),
            (quorum_defects.two_changes_at_once, 17),
            (quorum_defects.removed_leader_goes_on, 0),
        ]
    }
    | {
        plant.__name__: Planted(plant, SEEDS, first, CLUSTER_UNCLEAN)
        for plant, first in [
            (any_topic_has_unclean_elections, 0),
            (unclean_leaders_never_recover, 0),
            # Leaders that lack records are also those whose followers have others.
            (diverging_logs_are_not_noticed, 0),
        ]
    }
    | {
        plant.__name__: Planted(plant, SEEDS, first, CLUSTER_SECURED)
        for plant, first in [
            (rights_outlive_the_rules, 1),
            (one_rule_takes_others_with_it, 6),
            (prefixes_are_not_looked_at, 0),
            (ended_tokens_log_in, 0),
            (sessions_outlive_their_token, 0),
            (nobody_has_to_wait, 0),
            (quotas_are_forgotten_by_a_start, 0),
        ]
    }
    | {
        dead_disks_are_not_noticed.__name__: Planted(dead_disks_are_not_noticed, SEEDS, 0, CLUSTER_DATA_DISKS),
    }
)
