"""Does what `broker-cy storage format` does for the nodes of a cluster, with static voters and with voters in the
log.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from broker_cy.controller.activation import default_bootstrap
from broker_cy.core.randomness import Randomness
from broker_cy.metadata import snapshot
from broker_cy.metadata.image import RESOURCE_GROUP
from broker_cy.metadata.records import VersionedRecord
from broker_cy.quorum import wire_log
from broker_cy.quorum.voters import MAX_KRAFT_VERSION, Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.storage.data_directory import DataDirectory, make_log_directory
from broker_cy.storage.open_directories import open_directories, open_metadata_directory
from broker_cy.storage_tool.formatting import FIRST_SNAPSHOT
from broker_cy.wire import messages
from tests.sim.world.cluster import CONTROLLER_PORT, node_of
from tests.sim.world.draws import Draws, Trace
from tests.sim.world.shares import GROUP, GROUP_SETTINGS

if TYPE_CHECKING:
    from tests.sim.world.plan import Plan

CLUSTER_ID, TARGET_ID = "vPeWCWqNQ0eGGvvK5wD1kg", "5L6g3nShT-eMCtK--X86sw"
METADATA_LOG = "__cluster_metadata-0"
# Most worlds have no groups of these types. Without the records of these features, recorded seeds keep their meaning.
UNUSED = ("share.version", "streams.version")


def format_directory(
    roots: list[str],
    node_id: int,
    draw: Any,
    metadata: str | None = None,
    records: list[VersionedRecord] | None = None,
    cluster_id: str = CLUSTER_ID,
) -> None:
    """A node of a cluster with static voters; its metadata log may have a directory of its own. `records` are the
    bootstrap records if they differ from those of most worlds.
    """
    new_uuid, metadata = Randomness(draw).kafka_uuid, metadata or roots[0]
    data = open_directories(roots, node_id, lambda: cluster_id, new_uuid)
    open_metadata_directory(metadata, data, new_uuid).close()
    for each in data:
        each.close()
    _write(os.path.join(metadata, snapshot.BOOTSTRAP_NAME), snapshot.KRaftState(), records)


def format_another(root: str, node_id: int, draw: Any) -> None:
    """An empty disk in the place of another one of a node (--ignore-formatted)."""
    directory = DataDirectory(root)
    directory.format(CLUSTER_ID, node_id, Randomness(draw).kafka_uuid())
    directory.close()


def format_voter(plan: Plan, host: str, root: str, number: int) -> None:
    """A node of a cluster with kraft.version 1; `number` says how many disks it has had. Those that are among the first
    voters get them all (--initial-controllers), the others none (--no-initial-controllers).
    """
    directory = DataDirectory(root)
    directory.format(CLUSTER_ID, node_of(host), key_of(plan.seed, host, number).directory_id)
    _write(os.path.join(root, snapshot.BOOTSTRAP_NAME), snapshot.KRaftState(), is_bootstrap=True)
    if host in plan.voters and number == 0:
        voters = VoterSet(voter_of(plan.seed, each) for each in plan.voters)
        log = make_log_directory(root, METADATA_LOG)
        kraft = snapshot.KRaftState(MAX_KRAFT_VERSION, wire_log.to_record(voters))
        _write(os.path.join(log, FIRST_SNAPSHOT.file_name), kraft, is_bootstrap=False)


def key_of(seed: int, host: str, number: int) -> ReplicaKey:
    """Id and directory id of a host with its disk number `number`, from 0 on."""
    draw = Draws(seed, f"{host}/directory {number}", Trace())
    return ReplicaKey(node_of(host), Randomness(draw).kafka_uuid())


def voter_of(seed: int, host: str, number: int = 0) -> Voter:
    return Voter(key_of(seed, host, number), (Endpoint("CONTROLLER", host, CONTROLLER_PORT),))


def bootstrap_records(plan: Plan) -> list[VersionedRecord] | None:
    """Those of a cluster with share or streams groups; None for any other one."""
    if plan.has_shares:
        return _share_records()
    return _features({"share.version"}) if plan.has_streams or plan.instances else None


def _share_records() -> list[VersionedRecord]:
    """The group begins at the first record of each log."""
    settings = [
        VersionedRecord(
            messages.ConfigRecord(resource_type=RESOURCE_GROUP, resource_name=GROUP, name=name, value=value)
        )
        for name, value in GROUP_SETTINGS.items()
    ]
    return _features({"streams.version"}) + settings


def _features(unused: Collection[str]) -> list[VersionedRecord]:
    return [each for each in default_bootstrap() if each.message.name not in unused]


def _write(
    path: str,
    kraft: snapshot.KRaftState,
    records: list[VersionedRecord] | None = None,
    *,
    is_bootstrap: bool = True,
) -> None:
    if records is None:
        records = _features(UNUSED) if is_bootstrap else []
    with open(path, "wb") as file:
        file.writelines(snapshot.write(iter(records), kraft, 0, 0, 0))
