"""The ASGI application: Dash on FastAPI with the pages, the WebSocket, the acts; and the guard around everything."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import html as html_text
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import dash
from dash import Dash, html
from dash.development.base_component import Component
from dash.exceptions import CallbackException
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from broker_cy import __version__
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.alerts.watch import Alerting
from broker_cy.http.answers import JsonRequest, json_route
from broker_cy.http.compressed import Compressed
from broker_cy.http.own_requests import collected, get_scope, no_body
from broker_cy.reporting.document import PLOTLY
from dashboard.acts import Acts
from dashboard.components.panel import page_path
from dashboard.components.shell import shell
from dashboard.context import IDENTITY, Context, Page
from dashboard.live.socket import LiveSockets
from dashboard.pages import report
from dashboard.pages.registry import PAGES
from dashboard.record_routes import routes as record_routes
from dashboard.report_file import routes as report_routes
from dashboard.security.guard import Guard
from dashboard.security.headers import CACHED_PREFIXES, VERSIONED_PREFIXES
from dashboard.security.routes import routes

_LOG = logging.getLogger(__name__)
ASSETS = Path(__file__).with_name("assets")
# Endpoints of Dash that this program does not use: a socket with a queue for each viewer, and reloading for developers.
_UNUSED_PATHS = frozenset({"/_dash-ws-callback", "/_reload-hash"})
CALLBACK_PATH = "/_dash-update-component"
# The exceptions that Dash raises when it reads a body that its own pages would not send.
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, CallbackException)
_ADDRESS = re.compile(r'(?:src|href)="([^"]+)"')
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<meta name="color-scheme" content="light dark"><title>{%title%}</title>{%favicon%}{%css%}</head>
<body>{%app_entry%}{%config%}{%scripts%}{%renderer%}</body>
</html>"""


def build(context: Context, alerts: Alerting) -> ASGIApp:
    """Build the application of `context`, whose clusters share `alerts`. Its lifespan starts and ends everything."""
    context.pages = PAGES if context.report is None else (*PAGES, report.PAGE)
    for hub in context.hubs.values():
        hub.audit = context.security.audit
    acts = Acts(context)
    sockets = LiveSockets(context.hubs, __version__)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for hub in context.hubs.values():
            hub.start()
        preparing = asyncio.create_task(_prepare(compressed, server))
        try:
            yield
        finally:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
            await acts.close()
            for hub in context.hubs.values():
                await hub.close()
            await alerts.close()

    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    server.router.routes += [
        WebSocketRoute("/live", sockets.serve),
        Route("/healthz", lambda _: Response("ok", media_type="text/plain")),
        *(json_route(f"/act/{run.__name__}", _act(run)) for run in (acts.open, acts.plan, acts.execute)),
        *record_routes(context),
        *report_routes(context),
        # After the file of a report, which has the address /report.
        *_redirects(context),
        # The library that reports contain; Dash serves the other files of assets/vendor.
        Route(f"/assets/vendor/{PLOTLY.name}", lambda _: FileResponse(PLOTLY, media_type="text/javascript")),
        *routes(context.security),
    ]
    app = _dash(context, server)
    server.router.routes[:] = [
        route for route in server.router.routes if getattr(route, "path", "") not in _UNUSED_PATHS
    ]
    compressed = Compressed(server, CACHED_PREFIXES, VERSIONED_PREFIXES)
    for route in server.router.routes:
        if isinstance(route, Route) and route.path == CALLBACK_PATH:
            route.app = Lenient(route.app)
    hashes = _script_hashes(app, server)
    found = Found(compressed, _addresses(context, server))
    return Guard(Named(found), context.security, hashes, frames=context.report is not None)


def _script_hashes(app: Dash, server: FastAPI) -> list[str]:
    """Return the hashes of the inline scripts of Dash's index page, which are complete after a first request."""
    asyncio.run(collected(server, get_scope("/_dash-dependencies"), no_body()))
    return [
        "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in (*app._inline_scripts, app.renderer)
    ]


async def _prepare(compressed: Compressed, server: FastAPI) -> None:
    """Compress the files that pages load: those that Dash's index page names, and the libraries in order of size."""
    _, message = await collected(server, get_scope(page_path("-", "overview")), no_body())
    named = [html_text.unescape(each) for each in _ADDRESS.findall(message["body"].decode())]
    libraries = sorted([*ASSETS.glob("vendor/*.js"), PLOTLY], key=lambda path: path.stat().st_size)
    await compressed.prepare(
        [each for each in named if each.startswith(CACHED_PREFIXES)]
        + [f"/assets/vendor/{path.name}" for path in libraries]
    )


class Lenient:
    """Answers with 400, instead of a traceback and 500, if Dash cannot process the body of a request. Dash's only
    callback is that of pages; a page that fails shows the reason.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except _MALFORMED as error:
            text = f"the body is not a request of one of the dashboard's pages: {type(error).__name__}: {error}"
            _LOG.info("%s: %s", CALLBACK_PATH, text[:1_000])
            await JSONResponse({"error": text[:1_000]}, 400)(scope, receive, send)


class Found:
    """Answers with 404 if an address is unknown. Dash sends the same document for every address, with 200, and shows in
    the browser that there is no such page.
    """

    def __init__(self, app: ASGIApp, is_known: Callable[[Scope], bool]) -> None:
        self._app = app
        self._is_known = is_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
            return

        async def send_missing(message: Message) -> None:
            is_document = message["type"] == "http.response.start" and message["status"] == 200
            await send({**message, "status": 404} if is_document else message)

        await self._app(scope, receive, send_missing)


class Named:
    """Sets IDENTITY for the task of each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity = scope.get("state", {}).get("identity")
        if identity is None:
            await self._app(scope, receive, send)
            return
        token = IDENTITY.set(identity)
        try:
            await self._app(scope, receive, send)
        finally:
            IDENTITY.reset(token)


def _redirects(context: Context) -> list[Route]:
    """Return the addresses that lead to a page: /, /PAGE for the default cluster, and old names of pages."""
    found = [Route("/", _to_page(context, "overview"))]
    for page in context.pages:
        to_page = _to_page(context, page.name)
        found += [Route(f"/{name}", to_page) for name in (page.name, *page.old_names)]
        found += [Route(f"/c/{{cluster}}/{name}", to_page) for name in page.old_names]
    return found


def _to_page(context: Context, name: str) -> Callable[[Request], Response]:
    """Return the redirect to a page of the cluster in the path, else of the first cluster that the viewer may see. The
    cluster file's default is the first.
    """

    def redirect(request: Request) -> Response:
        seen = [each for each in context.hubs if context.identity().scope.sees_cluster(each)]
        cluster = request.path_params.get("cluster") or next(iter(seen), "")
        if not cluster:
            return Response("your account may see no cluster", 403, media_type="text/plain")
        path, query = page_path(cluster, name), request.url.query
        # The address of the dashboard itself has no query, except one that another program added.
        return RedirectResponse(f"{path}?{query}" if query and request.url.path != "/" else path, 302)

    return redirect


def _addresses(context: Context, server: FastAPI) -> Callable[[Scope], bool]:
    """Return the test whether a request is for a page or for a route of this program."""
    pages = [Route(f"/c/{{cluster}}/{page.name}", _to_page(context, page.name)) for page in context.pages]
    # At startup, Dash adds a route for every address.
    routes = (*server.router.routes, *pages)
    return lambda scope: any(route.matches(scope)[0] is not Match.NONE for route in routes)


def _act(run: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Callable[[JsonRequest], Awaitable[Any]]:
    return lambda request: run(request.body)


def _dash(context: Context, server: FastAPI) -> Dash:
    # The process has one registry, although tests build several applications.
    dash.page_registry.clear()
    app = Dash(
        "dashboard",
        server=server,  # type: ignore[arg-type]  # its annotation names only Flask's way
        backend="fastapi",
        use_pages=True,
        include_pages_meta=False,
        pages_folder="",
        assets_folder=str(ASSETS),
        # Large libraries are only loaded by pages that need them (assets/a_core.js).
        assets_path_ignore=["vendor"],
        title="broker-dash",
        update_title="",
        index_string=INDEX,
        suppress_callback_exceptions=True,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    # Otherwise each browser opens a second socket, for a kind of callbacks that this program does not have.
    app.backend.websocket_capability = False
    for page in context.pages:
        dash.register_page(  # type: ignore[no-untyped-call]
            f"dashboard.pages.{page.name}",
            path_template=f"/c/<cluster>/{page.name}",
            name=page.title,
            title=f"{page.title} - broker-dash",
            layout=_layout(context, page),
        )
    dash.register_page(  # type: ignore[no-untyped-call]
        "not_found_404", title="Not found - broker-dash", layout=_not_found
    )
    app.layout = html.Div([dash.page_container])
    return app


def _layout(context: Context, page: Page) -> Callable[..., Component]:
    def layout(cluster: str = "", **query: str) -> Component:
        # Dash decodes the query but not the path.
        cluster = unquote(cluster)
        try:
            context.hub(cluster)
            if context.identity().role < page.role:
                raise ClientError(Failure.REFUSED, f"this page needs the role {page.role.name.lower()}")
            return page.layout(context, cluster, **{name: value for name, value in query.items() if value})
        except ClientError as error:
            return _problem(context, cluster, page, error.reason)
        except Exception as error:
            # Dash would answer with an empty page; a query with an unknown name is a TypeError.
            _LOG.exception("page %s", page.name)
            return _problem(context, cluster, page, f"This page cannot be shown: {type(error).__name__}: {error}")

    return layout


def _problem(context: Context, cluster: str, page: Page, text: str) -> Component:
    return shell(context, cluster, page.name, page.title, [html.P(text, className="problem", role="alert")])


def _not_found(**_: str) -> Component:
    text = "No page has this address."
    return html.Main(
        [html.H1("Not found"), html.P([text, " ", html.A("Go to the overview", href="/")])], className="content"
    )
