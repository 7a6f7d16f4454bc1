"""The APIs whose handlers are imported with their first request, in a worker thread: an import takes up to 10 ms, and
all of them together took an eighth of a start and 3 MB. The handlers that nearly every client uses, those of listeners
of controllers and those that are written in Cython declare themselves where they stand.
"""

from __future__ import annotations

from functools import partial

from broker_cy.broker import registry
from broker_cy.broker.registry import BOTH
from broker_cy.wire.frame import ApiKey

deferred = partial(registry.deferred, __package__)

deferred(
    ApiKey.ADD_OFFSETS_TO_TXN,
    versions=(0, 4),
    requires="WRITE on the transactional id, READ on the group",
)
deferred(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=(0, 5),
    requires="WRITE on the transactional id and on each topic; from version 4 on CLUSTER_ACTION on the cluster",
)
deferred(ApiKey.ADD_RAFT_VOTER, versions=(0, 1), on=BOTH, requires="ALTER on the cluster")
deferred(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), on=BOTH, requires="ALTER_CONFIGS on the cluster")
deferred(
    ApiKey.ALTER_CONFIGS,
    versions=(0, 2),
    on=BOTH,
    requires="ALTER_CONFIGS on each topic and group; on the cluster for brokers, loggers and client metrics",
)
deferred(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=(0, 1),
    on=BOTH,
    requires="ALTER on the cluster",
)
deferred(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), requires="ALTER on the cluster")
deferred(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    versions=(0, 0),
    requires="READ on the group and on each topic",
)
deferred(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=(0, 0),
    on=BOTH,
    requires="ALTER on the cluster",
)
deferred(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=(0, 1),
    requires="DESCRIBE on each group, and on each topic that it reads",
)
deferred(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=(0, 1),
    requires="READ on the group, DESCRIBE on each topic of its list",
)
deferred(ApiKey.CREATE_ACLS, versions=(1, 3), on=BOTH, requires="ALTER on the cluster")
deferred(
    ApiKey.CREATE_DELEGATION_TOKEN,
    versions=(1, 3),
    on=BOTH,
    requires="a login; CREATE_TOKENS on the owner of the token, if the owner is another user",
)
deferred(ApiKey.CREATE_PARTITIONS, versions=(0, 3), on=BOTH, requires="ALTER on each topic")
deferred(
    ApiKey.CREATE_TOPICS,
    versions=(2, 7),
    on=BOTH,
    requires="CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on a topic to get its settings",
)
deferred(ApiKey.DELETE_ACLS, versions=(1, 3), on=BOTH, requires="ALTER on the cluster")
deferred(ApiKey.DELETE_GROUPS, versions=(0, 2), requires="DELETE on each group")
deferred(ApiKey.DELETE_RECORDS, versions=(0, 2), requires="DELETE on each topic")
deferred(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions=(0, 0),
    requires="DELETE on the group, READ on each topic",
)
deferred(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    versions=(0, 0),
    requires="CLUSTER_ACTION on the cluster",
)
deferred(ApiKey.DELETE_TOPICS, versions=(1, 6), on=BOTH, requires="DELETE on the cluster or on each topic")
deferred(ApiKey.DESCRIBE_ACLS, versions=(1, 3), on=BOTH, requires="DESCRIBE on the cluster")
deferred(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), requires="DESCRIBE_CONFIGS on the cluster")
deferred(
    ApiKey.DESCRIBE_CLUSTER,
    versions=(0, 2),
    on=BOTH,
    requires="ALTER on the cluster, on controller listeners",
)
deferred(
    ApiKey.DESCRIBE_CONFIGS,
    versions=(1, 4),
    on=BOTH,
    requires="DESCRIBE_CONFIGS on each topic and group; on the cluster for brokers, loggers and client metrics",
)
deferred(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    versions=(1, 3),
    requires="a login; DESCRIBE on the token or DESCRIBE_TOKENS on its owner, for tokens of others",
)
deferred(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), requires="DESCRIBE on each group")
deferred(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), requires="DESCRIBE on the cluster")
deferred(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), requires="READ on each topic")
deferred(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), on=BOTH, requires="DESCRIBE on the cluster")
deferred(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=(0, 1),
    requires="DESCRIBE on each group, and on each of its topics",
)
deferred(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), requires="DESCRIBE on each topic")
deferred(
    ApiKey.DESCRIBE_TRANSACTIONS,
    versions=(0, 0),
    requires="DESCRIBE on each transactional id; topics without DESCRIBE are left out",
)
deferred(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=(0, 0),
    requires="DESCRIBE on the cluster",
)
deferred(ApiKey.ELECT_LEADERS, versions=(0, 2), on=BOTH, requires="ALTER on the cluster")
deferred(ApiKey.END_TXN, versions=(0, 5), requires="WRITE on the transactional id")
deferred(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    versions=(1, 2),
    on=BOTH,
    requires="a login as owner or renewer",
)
deferred(
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    versions=(0, 0),
    is_advertised=False,
    omissions="no metrics are requested; PushTelemetry is not served",
    requires="",
)
deferred(ApiKey.HEARTBEAT, versions=(0, 4), requires="READ on the group")
deferred(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=(0, 1),
    on=BOTH,
    requires="ALTER_CONFIGS on each topic and group; on the cluster for brokers, loggers and client metrics",
)
deferred(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    versions=(0, 0),
    requires="CLUSTER_ACTION on the cluster",
)
deferred(ApiKey.JOIN_GROUP, versions=(0, 9), requires="READ on the group")
deferred(ApiKey.LEAVE_GROUP, versions=(0, 5), requires="READ on the group")
deferred(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), requires="DESCRIBE_CONFIGS on the cluster")
deferred(
    ApiKey.LIST_GROUPS,
    versions=(0, 5),
    requires="DESCRIBE on the cluster, or on each group; other groups are left out",
)
deferred(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=(0, 0),
    on=BOTH,
    requires="DESCRIBE on the cluster",
)
deferred(
    ApiKey.LIST_TRANSACTIONS,
    versions=(0, 2),
    requires="DESCRIBE on each transactional id; other ids are left out",
)
deferred(ApiKey.OFFSET_COMMIT, versions=(2, 10), requires="READ on the group and on each topic")
deferred(ApiKey.OFFSET_DELETE, versions=(0, 0), requires="DELETE on the group, READ on each topic")
deferred(ApiKey.OFFSET_FETCH, versions=(1, 10), requires="DESCRIBE on each group, and on each topic")
deferred(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=(2, 4),
    requires="CLUSTER_ACTION on the cluster, or DESCRIBE on each topic",
)
deferred(ApiKey.READ_SHARE_GROUP_STATE, versions=(0, 0), requires="CLUSTER_ACTION on the cluster")
deferred(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    versions=(0, 1),
    requires="CLUSTER_ACTION on the cluster",
)
deferred(ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), on=BOTH, requires="ALTER on the cluster")
deferred(
    ApiKey.RENEW_DELEGATION_TOKEN,
    versions=(1, 2),
    on=BOTH,
    requires="a login as owner or renewer",
)
deferred(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), requires="READ on the group and on each topic")
deferred(ApiKey.SHARE_FETCH, versions=(1, 2), requires="READ on the group and on each topic")
deferred(
    ApiKey.SHARE_GROUP_DESCRIBE,
    versions=(1, 1),
    requires="DESCRIBE on each group, and on each topic that it reads",
)
deferred(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    versions=(1, 1),
    requires="READ on the group, DESCRIBE on each topic of its list",
)
deferred(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=(0, 0),
    requires="DESCRIBE on each group, and on each topic of its topology",
)
deferred(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    versions=(0, 0),
    requires="READ on the group, DESCRIBE on each topic of the topology; CREATE on the cluster or internal topics to "
    "create them",
)
deferred(ApiKey.SYNC_GROUP, versions=(0, 5), requires="READ on the group")
deferred(
    ApiKey.TXN_OFFSET_COMMIT,
    versions=(0, 5),
    requires="WRITE on the transactional id, READ on the group and on each topic",
)
deferred(ApiKey.UNREGISTER_BROKER, versions=(0, 0), on=BOTH, requires="ALTER on the cluster")
deferred(ApiKey.UPDATE_FEATURES, versions=(0, 2), on=BOTH, requires="ALTER on the cluster")
deferred(ApiKey.WRITE_SHARE_GROUP_STATE, versions=(0, 1), requires="CLUSTER_ACTION on the cluster")
deferred(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), requires="CLUSTER_ACTION or ALTER on the cluster")
