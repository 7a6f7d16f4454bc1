"""Resources about the server itself: /info, /healthcheck, /status, /clusterStatus, /v1/metadata, /is_valid_property."""

from __future__ import annotations

from typing import Any, Final

from broker_sql.server.api.requests import Answer, Request
from broker_sql.server.api.router import Router
from broker_sql.server.commands import BadCommand, parse_id
from broker_sql.server.errors import ApiError, Code, bad_request
from broker_sql.server.service import Service

# The version of ksqlDB whose API this is: clients read its numbers.
VERSION: Final = "0.29.0"
_MOVED: Final = 307


def add_routes(router: Router) -> None:
    router.add("GET", "/", root)
    router.add("GET", "/info", info)
    router.add("GET", "/healthcheck", health)
    router.add("GET", "/chc/live", live)
    router.add("GET", "/chc/ready", live)
    router.add("GET", "/v1/metadata", metadata)
    router.add("GET", "/v1/metadata/id", metadata_id)
    router.add("GET", "/status", statuses)
    router.add("GET", "/status/{type}/{entity}/{action}", status)
    router.add("GET", "/clusterStatus", cluster_status)
    router.add("GET", "/is_valid_property/{property}", is_valid_property)


async def root(service: Service, request: Request) -> Answer:
    return Answer(None, _MOVED, headers=((b"location", b"/info"),))


async def info(service: Service, request: Request) -> Answer:
    """`setAside` names the records of the command topic that could not be replayed; ksqlDB has no such member."""
    found: dict[str, Any] = {
        "version": VERSION,
        "kafkaClusterId": service.cluster_id,
        "ksqlServiceId": service.config.service_id,
        "serverStatus": "RUNNING" if service.is_following else "ERROR",
    }
    if service.engine.set_aside:
        found["setAside"] = [each.to_json() for each in service.engine.set_aside]
    return Answer({"KsqlServerInfo": found})


async def health(service: Service, request: Request) -> Answer:
    """`commandRunner` is not healthy while the command topic cannot be followed, or has records that were not replayed
    and are not in brokercy.sql.set.aside.
    """
    kafka = await service.reaches_brokers()
    undecided = [each for each in service.engine.set_aside if not each.is_decided]
    details = {
        "metastore": {"isHealthy": service.is_following},
        "kafka": {"isHealthy": kafka},
        "commandRunner": {"isHealthy": service.is_following and not undecided},
    }
    state = {"serverState": "READY"} if service.is_following else {"serverState": "ERROR"}
    return Answer({"isHealthy": all(each["isHealthy"] for each in details.values()), "details": details, **state})


async def live(service: Service, request: Request) -> Answer:
    return Answer({})


async def metadata(service: Service, request: Request) -> Answer:
    return Answer({"version": VERSION, "clusterId": _cluster(service)})


async def metadata_id(service: Service, request: Request) -> Answer:
    return Answer(_cluster(service))


def _cluster(service: Service) -> dict[str, Any]:
    clusters = {"kafka-cluster": service.cluster_id, "ksql-cluster": service.config.service_id}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def statuses(service: Service, request: Request) -> Answer:
    found = {name: each.state for name, each in service.engine.statuses.items()}
    return Answer({"commandStatuses": found})


async def status(service: Service, request: Request) -> Answer:
    text = "/".join(request.path[each] for each in ("type", "entity", "action"))
    try:
        name = str(parse_id(text))
    except BadCommand as error:
        raise bad_request(str(error)) from None
    found = service.engine.statuses.get(name)
    if found is None:
        raise ApiError(Code.NOT_FOUND, f"Command not found: {name}")
    return Answer(found.to_json())


async def cluster_status(service: Service, request: Request) -> Answer:
    return Answer({"clusterStatus": await service.cluster_status()})


async def is_valid_property(service: Service, request: Request) -> Answer:
    problem = service.config.problem_of({request.path["property"]: ""})
    if problem:
        raise bad_request(problem)
    return Answer(True)
