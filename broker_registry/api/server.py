"""/, /contexts and /v1/metadata: the instance, its contexts and its cluster."""

from __future__ import annotations

from broker_cy import __version__
from broker_registry.api.requests import Answer, Request
from broker_registry.api.router import Router
from broker_registry.operations.delete import delete_context
from broker_registry.service import Service
from broker_registry.subject_names import DEFAULT_CONTEXT, normalized

# The release of Confluent's registry whose API this is: clients ask before they use newer parts.
API_VERSION = "8.5.0"
GROUP = "schema-registry"


def add_routes(router: Router) -> None:
    router.add("GET", "/", root)
    router.add("POST", "/", root)
    router.add("GET", "/contexts", list_contexts)
    router.add("DELETE", "/contexts/{context}", remove_context)
    router.add("GET", "/v1/metadata/id", cluster_id)
    router.add("GET", "/v1/metadata/version", version)


async def root(service: Service, request: Request) -> Answer:
    return Answer({})


async def list_contexts(service: Service, request: Request) -> Answer:
    prefix = request.text("contextPrefix") or ""
    return Answer(
        request.page([each for each in (DEFAULT_CONTEXT, *service.state.contexts) if each.startswith(prefix)])
    )


async def remove_context(service: Service, request: Request) -> Answer:
    context = normalized(request.path["context"])
    await service.write(lambda state, ids: delete_context(state, context))
    return Answer(status=204)


async def cluster_id(service: Service, request: Request) -> Answer:
    clusters = {"kafka-cluster": service.cluster_id, "schema-registry-cluster": GROUP}
    return Answer({"scope": {"path": [], "clusters": clusters}, "id": ""})


async def version(service: Service, request: Request) -> Answer:
    return Answer({"version": API_VERSION, "commitId": f"broker-cy-{__version__}"})
