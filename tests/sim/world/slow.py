"""Planted defects that take longer than 1.5 s of a core to find with their recorded seed: `make test-all` looks for
them.

Most are found when a client or a replica has waited for up to 120 s of virtual time, or by a cluster with many faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

SLOW = frozenset(
    {
        # One machine.
        "logs are opened late after a power cut",
        "coordinators load for ever",
        # Clusters.
        "nothing_is_truncated",
        "empty_epochs_are_not_cut",
        "diverging_logs_are_not_noticed",
        "rights_outlive_the_rules",
        # tests/broker_cy/security/test_authorizer.py finds it in each `make test`.
        "prefixes_are_not_looked_at",
        "ended_tokens_log_in",
        "quotas_are_forgotten_by_a_start",
        "unclean_leaders_never_recover",
        "any_topic_has_unclean_elections",
        "who_is_far_behind_is_forgotten",
        "voters_are_removed_by_id_alone",
        "a_start_knows_only_the_newest_voters",
        "deposed_leaders_go_on",
        "several disks: elections_fence_copies",
        "several disks: rounds_of_a_former_disk_count",
        "several disks: replaced_disks_stay_empty",
        "several disks: copies_are_swapped_as_they_are",
        # Groups.
        "redriven_records_keep_their_count",
        "snapshot_loses_the_batches",
        "threads: assignments_are_not_persisted",
        "threads: loaded_members_have_no_session",
        # Kinds of faults.
        "pause",
        "lose_data_disk",
        "kill_controller",
        "replace_disk",
        "refuse_markers",
        "fail_disk",
        # Calls that block a loop.
        "metadata are applied at once",
    }
)


def tiered(names: Iterable[str]) -> list[Any]:
    """Return the names as parameters of a test; those of SLOW are for `make test-all`."""
    return [pytest.param(name, marks=pytest.mark.full) if name in SLOW else name for name in names]
