"""The pages of an instance over HTTP/1.1 (broker_cy/http/pages.py has the bounds).

    /status      its state, tasks and rates (broker_cy/client/streams_status.py)
    /plan        the topology (broker_streams/plan/codec.py)
    /metrics     for Prometheus
    /healthz     200 unless an error has ended the instance
    /readyz      200 while it is RUNNING
    /metadata    the instances of the application; /metadata/STORE those of a store, with ?key=K that of a key
    /stores      the stores of the application; /stores/STORE?... its rows (broker_streams/seen/rows.py)

Rows are data of the application: without a token, only requests over a loopback address get them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError
from broker_cy.http.pages import JSON, TEXT, PageAnswer, PageRequest, PageServer
from broker_cy.metrics.exposition import CONTENT_TYPE
from broker_streams.hosts.embedded.queries import Queries
from broker_streams.hosts.measures import State
from broker_streams.plan import codec
from broker_streams.queries.metadata import StreamsMetadata
from broker_streams.queries.views import StoreUnavailable
from broker_streams.seen.metrics import metrics_page
from broker_streams.seen.rows import BadQuery, Rows
from broker_streams.seen.settings import LISTENER, TOKEN_FILE, SeenSettings
from broker_streams.seen.view import HostView
from broker_streams.seen.watch import Watch

PAGES: Final = ("/status", "/plan", "/metrics", "/healthz", "/readyz", "/metadata", "/stores")
REQUEST_S: Final = 10.0
"""A read of committed rows waits for a commit, and may go on to another instance."""
_LOG = logging.getLogger("broker_streams")


class InstancePages(PageServer):
    """`async with InstancePages(watch, settings) as pages`; `settings.listener` must be set."""

    def __init__(self, watch: Watch, settings: SeenSettings) -> None:
        address = settings.listener
        assert address is not None
        super().__init__(address, self._page, setting=LISTENER, request_s=REQUEST_S)
        self._watch = watch
        queries = watch.view.stores
        self._stores = None if queries is None else _StorePages(watch.view, queries, settings)

    async def _page(self, request: PageRequest) -> PageAnswer:
        try:
            return await self._found(request)
        except BadQuery as error:
            return _error(400, str(error))
        except StoreUnavailable as error:
            return _error(503, str(error))
        except ClientError as error:
            return _error(502, str(error))
        except Exception as error:
            _LOG.exception("the page %s", request.path)
            return _error(500, f"{type(error).__name__}: {error}")

    async def _found(self, request: PageRequest) -> PageAnswer:
        watch, life = self._watch, self._watch.view.life
        page, _, rest = request.path.removeprefix("/").partition("/")
        match page, rest:
            case "status", "":
                return PageAnswer(200, JSON, watch.state().to_json())
            case "plan", "":
                return PageAnswer(200, JSON, codec.to_json(watch.view.plan).encode())
            case "metrics", "":
                return PageAnswer(200, CONTENT_TYPE, metrics_page(watch))
            case "healthz", "":
                is_well = life.state not in (State.ERROR, State.PENDING_ERROR)
                return PageAnswer(200 if is_well else 503, TEXT, f"{life.state.value}\n".encode())
            case "readyz", "":
                return PageAnswer(200 if life.state is State.RUNNING else 503, TEXT, f"{life.state.value}\n".encode())
            case (("metadata" | "stores"), _):
                if self._stores is None:
                    return _error(404, "stores of an application on Spark are with its workers, which serve no pages")
                return await self._stores.page(request, page, unquote(rest))
            case _:
                return _error(404, f"the pages are {', '.join(PAGES)}")


class _StorePages:
    """The pages about stores: places of keys, and rows."""

    def __init__(self, view: HostView, queries: Queries, settings: SeenSettings) -> None:
        self._view, self._queries, self._settings = view, queries, settings
        self._rows = Rows(queries, settings.token)

    async def page(self, request: PageRequest, page: str, name: str) -> PageAnswer:
        """Raises BadQuery, StoreUnavailable, ClientError."""
        if page == "metadata":
            return _json(self._metadata(name, request.query))
        if not name:
            return _json({"stores": self._stores()})
        refused = self._refused(request)
        return _json(await self._rows.page(name, request.query)) if refused is None else refused

    def _refused(self, request: PageRequest) -> PageAnswer | None:
        settings = self._settings
        if settings.token is not None:
            return None if request.has_token(settings.token) else _error(401, "rows need Authorization: Bearer TOKEN")
        if settings.shows_rows:
            return None
        return _error(403, f"others reach this address, so rows need a token: set {TOKEN_FILE} of all instances")

    def _stores(self) -> list[dict[str, Any]]:
        placement = self._queries.placement
        active = [each.name.split("_") for each in self._view.tasks() if each.is_active]
        found = []
        for store in self._view.plan.stores:
            here = []
            if not placement.is_global(store.name):
                number = placement.subtopology(store.name)
                here = sorted(int(at) for part, at in active if part == number)
            found.append(
                {
                    "name": store.name,
                    "kind": store.kind.value,
                    "partitions": placement.partitions(store.name),
                    "is_global": placement.is_global(store.name),
                    "active_here": here,
                }
            )
        return found

    def _metadata(self, store: str, query: Mapping[str, str]) -> dict[str, Any]:
        queries = self._queries
        if not store:
            return {"instances": [_instance(each) for each in queries.metadata_for_all_streams_clients()]}
        if "key" not in query and "key64" not in query:
            return {"instances": [_instance(each) for each in queries.streams_metadata_for_store(store)]}
        key = self._rows.query_of(queries.placement.store(store), query).key
        found = queries.query_metadata_for_key(store, key, lambda data: data)
        return {
            "active": None if found.active is None else str(Address(*found.active)),
            "standbys": sorted(str(Address(*each)) for each in found.standbys),
            "partition": found.partition,
        }


def _instance(found: StreamsMetadata) -> dict[str, Any]:
    return {
        "instance": str(Address(*found.place)),
        "stores": sorted(found.stores),
        "partitions": sorted(f"{topic}-{partition}" for topic, partition in found.partitions),
        "standby_stores": sorted(found.standby_stores),
        "standby_partitions": sorted(f"{topic}-{partition}" for topic, partition in found.standby_partitions),
    }


def _json(found: Any) -> PageAnswer:
    return PageAnswer(200, JSON, json.dumps(found, ensure_ascii=False).encode())


def _error(status: int, message: str) -> PageAnswer:
    return PageAnswer(status, JSON, json.dumps({"error_code": status, "message": message}, ensure_ascii=False).encode())
