"""The parts around a request: unsupported versions, bytes after the body, unknown tagged fields, bad frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey, api_versions, request_header_version
from broker_cy.wire.layout import Message
from tests.compat.differential.build import TIME_MS, batch, delete_records, fetch, list_offsets, metadata, part, produce
from tests.compat.differential.client import Answer
from tests.compat.differential.members import heartbeat, join, leave, sync
from tests.compat.differential.script import Run, script, versions_of
from tests.compat.differential.scripts_group_offsets import commit, committed

# A request of each API that changes nothing, about an existing topic or group of the script.
HARMLESS: dict[ApiKey, Callable[[Run, int], Message]] = {
    ApiKey.PRODUCE: lambda run, v: produce(run, v, {run.name: {5: batch(b"-", time_ms=TIME_MS)}}),
    ApiKey.FETCH: lambda run, v: fetch(run, v, {run.name: [part(0)]}),
    ApiKey.LIST_OFFSETS: lambda run, v: list_offsets({run.name: [(0, -1)]}),
    ApiKey.METADATA: lambda run, v: metadata([run.name], auto_create=v < 4),
    ApiKey.OFFSET_COMMIT: lambda run, v: commit(run, v, run.name, {run.name: [(5, 1)]}),
    ApiKey.OFFSET_FETCH: lambda run, v: committed(run, v, run.name, {run.name: [0]}),
    ApiKey.FIND_COORDINATOR: lambda run, v: messages.FindCoordinatorRequest(
        **({"coordinator_keys": ["g"]} if v >= 4 else {"key": "g"})
    ),
    ApiKey.JOIN_GROUP: lambda run, v: join(run.name, "nobody"),
    ApiKey.HEARTBEAT: lambda run, v: heartbeat(run.name, 1, "nobody"),
    ApiKey.LEAVE_GROUP: lambda run, v: (
        leave(run.name, ("nobody", None))
        if v >= 3
        else messages.LeaveGroupRequest(group_id=run.name, member_id="nobody")
    ),
    ApiKey.SYNC_GROUP: lambda run, v: sync(run.name, 1, "nobody"),
    ApiKey.DESCRIBE_GROUPS: lambda run, v: messages.DescribeGroupsRequest(groups=[run.name]),
    ApiKey.LIST_GROUPS: lambda run, v: messages.ListGroupsRequest(states_filter=["none"] if v >= 4 else []),
    ApiKey.CREATE_TOPICS: lambda run, v: messages.CreateTopicsRequest(),
    ApiKey.DELETE_TOPICS: lambda run, v: messages.DeleteTopicsRequest(),
    ApiKey.DELETE_RECORDS: lambda run, v: delete_records({run.name: [(0, 0)]}),
    ApiKey.INIT_PRODUCER_ID: lambda run, v: messages.InitProducerIdRequest(transactional_id=""),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda run, v: messages.OffsetForLeaderEpochRequest(),
    ApiKey.DESCRIBE_CONFIGS: lambda run, v: messages.DescribeConfigsRequest(),
    ApiKey.ALTER_CONFIGS: lambda run, v: messages.AlterConfigsRequest(),
    ApiKey.DESCRIBE_LOG_DIRS: lambda run, v: messages.DescribeLogDirsRequest(topics=[]),
    ApiKey.CREATE_PARTITIONS: lambda run, v: messages.CreatePartitionsRequest(),
    ApiKey.DELETE_GROUPS: lambda run, v: messages.DeleteGroupsRequest(groups_names=["none"]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda run, v: messages.IncrementalAlterConfigsRequest(),
    ApiKey.OFFSET_DELETE: lambda run, v: messages.OffsetDeleteRequest(group_id=run.name),
    ApiKey.DESCRIBE_CLUSTER: lambda run, v: messages.DescribeClusterRequest(),
    ApiKey.LIST_CONFIG_RESOURCES: lambda run, v: messages.ListConfigResourcesRequest(
        resource_types=[16] if v >= 1 else []
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda run, v: messages.DescribeTopicPartitionsRequest(
        topics=[messages.DescribeTopicPartitionsRequest.TopicRequest(name=run.name)]
    ),
    ApiKey.API_VERSIONS: lambda run, v: messages.ApiVersionsRequest(
        client_software_name="a", client_software_version="1"
    ),
}
UNKNOWN_TAGS = ((100, b"from the future"), (4000, b""))


def _dress(api: ApiKey) -> None:
    def dressed(run: Run, version: int) -> None:
        run.topic()
        request = HARMLESS[api](run, version)

        def ask(label: str, **how: Any) -> None:
            run.client().send(request, version, **how)
            _record(run, label, run.answer(label))

        ask("plain")
        ask("bytes behind the body", trailing=b"\1\2\3")
        if request_header_version(int(api), version) == 2:
            ask("unknown tags in the header", header_tags=b"\2\x07\1x\x09\0")
            request._unknown_tags = UNKNOWN_TAGS
            ask("unknown tags in the body")
        client = run.client("cut")
        client.send_body(int(api), version, b"\0")
        _record(run, "a body that is cut off", client.receive())

    dressed.__name__ = f"dressed_{api.name.lower()}"
    script(api)(dressed)


def _record(run: Run, label: str, answer: Answer) -> None:
    if isinstance(answer, messages.ListGroupsResponse):
        answer.groups = []  # those of other scripts
    run.record(label, answer)


def _versions_beside(api: ApiKey) -> None:
    """The version below the first and the one above the last: the connection is closed, except for ApiVersions."""

    def beside(run: Run, version: int) -> None:
        low, _ = api_versions(api)
        for other in {low - 1, max(versions_of(api)) + 1, -1, 32767} - {version}:
            client = run.client(str(other))
            client.send_body(int(api), other, b"\0" * 64)
            run.record(f"version {other}", client.receive())

    beside.__name__ = f"beside_{api.name.lower()}"
    script(api, versions=[max(versions_of(api))])(beside)


for _api in HARMLESS:
    _dress(_api)
    if _api is not ApiKey.API_VERSIONS:
        _versions_beside(_api)


@script(ApiKey.API_VERSIONS, versions=[0])
def frames(run: Run, version: int) -> None:
    """Invalid frames: the connection is closed, and nothing else happens."""
    header = b"\0\x12\0\0\0\0\0\1\0\1c"

    def send(label: str, payload: bytes, size: int | None = None) -> None:
        client = run.client(label)
        client.send_frame(payload, size)
        answer = client.receive_frame()
        run.record(label, answer if isinstance(answer, str) else f"answered with {len(answer) > 10}")

    send("good", header)
    send("null client id", b"\0\x12\0\0\0\0\0\1\xff\xff")
    send("empty client id", b"\0\x12\0\0\0\0\0\1\0\0")
    send("negative correlation id", b"\0\x12\0\0\xff\xff\xff\xff\0\0")
    send("client id of a negative length", b"\0\x12\0\0\0\0\0\1\xff\xfe")
    send("client id that is cut off", b"\0\x12\0\0\0\0\0\1\0\x09c")
    send("client id that is not UTF-8", b"\0\x12\0\0\0\0\0\1\0\2\xff\xfe")
    send("header that is cut off", header[:6])
    send("no client id at all", header[:8])
    send("empty frame", b"")
    send("negative length", b"", -1)
    send("length of 2 GB", b"", 2**31 - 1)
    send("length above socket.request.max.bytes", b"", 104857601)
    for key in (-1, 4, 5, 6, 7, 93, 500, 32767):
        send(f"api {key}", key.to_bytes(2, "big", signed=True) + header[2:])
    send("api of controllers", b"\0\x34\0\0\0\0\0\1\0\1c")
