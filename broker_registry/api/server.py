"""/, /contexts, /v1/metadata, the state of the instance as karapace answers it, and /metrics."""

from __future__ import annotations

from broker_cy import __version__
from broker_cy.metrics.exposition import CONTENT_TYPE
from broker_registry.api.permissions import alters_registry, anyone, listed
from broker_registry.api.requests import Answer, Request
from broker_registry.api.router import Router
from broker_registry.metrics import render
from broker_registry.operations.delete import delete_context
from broker_registry.service import Service
from broker_registry.subject_names import DEFAULT_CONTEXT, context_of, normalized

# The release of Confluent's registry whose API this is: clients ask before they use newer parts.
API_VERSION = "8.5.0"


def add_routes(router: Router) -> None:
    router.add("GET", "/", root, anyone)
    router.add("POST", "/", root, anyone)
    router.add("GET", "/contexts", list_contexts, listed)
    router.add("DELETE", "/contexts/{context}", remove_context, alters_registry)
    router.add("GET", "/v1/metadata/id", cluster_id, anyone)
    router.add("GET", "/v1/metadata/version", version, anyone)
    router.add("GET", "/master_available", master_available, anyone)
    router.add("GET", "/_health", health, anyone)
    router.add("GET", "/metrics", metrics, anyone)


async def root(service: Service, request: Request) -> Answer:
    return Answer({})


async def list_contexts(service: Service, request: Request) -> Answer:
    prefix, state = request.text("contextPrefix") or "", service.state
    contexts = state.contexts
    if not request.access.sees_everything:
        seen = {context_of(subject) for subject in state.subjects_inside(None) if request.access.sees(subject)}
        contexts = [each for each in contexts if each in seen]
    return Answer(request.page([each for each in (DEFAULT_CONTEXT, *contexts) if each.startswith(prefix)]))


async def remove_context(service: Service, request: Request) -> Answer:
    context = normalized(request.path["context"])
    await service.write(lambda state, ids: delete_context(state, context))
    return Answer(status=204)


async def cluster_id(service: Service, request: Request) -> Answer:
    clusters = {"kafka-cluster": service.cluster_id, "schema-registry-cluster": service.settings.group}
    return Answer({"scope": {"path": [], "clusters": clusters}, "id": ""})


async def version(service: Service, request: Request) -> Answer:
    return Answer({"version": API_VERSION, "commitId": f"broker-cy-{__version__}"})


async def master_available(service: Service, request: Request) -> Answer:
    """Each instance writes: no primary has to be found."""
    return Answer({"master_available": True})


async def health(service: Service, request: Request) -> Answer:
    """Status 503 once the topic can no longer be followed."""
    status = {"schema_registry_ready": service.is_following, "problems": service.state.problems_total}
    return Answer({"status": status, "healthy": service.is_following}, 200 if service.is_following else 503)


async def metrics(service: Service, request: Request) -> Answer:
    """For Prometheus, which asks for types of its own: this resource has one type."""
    return Answer(text=render(service, service.requests), content_type=CONTENT_TYPE)
