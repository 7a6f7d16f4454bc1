"""The pages of a process over HTTP/1.1, at `brokercy.mirror.listener`: /status (JSON), /metrics (Prometheus), /healthz,
and /readyz (503 with a line for each flow that does not run), without a login. broker_cy/http/pages.py has the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.client.address import Address
from broker_cy.client.mirror_status import MirrorStatus
from broker_cy.http.pages import JSON, TEXT, PageAnswer, PageRequest, PageServer
from broker_cy.metrics.exposition import CONTENT_TYPE
from broker_mirror.status import metrics_page


class Listener(PageServer):
    """`async with Listener(address, status) as listener`; `url` has the port that was bound."""

    def __init__(self, address: Address, status: Callable[[], MirrorStatus]) -> None:
        super().__init__(address, self._page, setting="brokercy.mirror.listener")
        self._status = status

    async def _page(self, request: PageRequest) -> PageAnswer:
        match request.path:
            case "/status":
                return PageAnswer(200, JSON, self._status().to_json())
            case "/metrics":
                return PageAnswer(200, CONTENT_TYPE, metrics_page(self._status()))
            case "/healthz":
                return PageAnswer(200, TEXT, b"ok\n")
            case "/readyz":
                missing = [f"{flow.name} is {flow.state}" for flow in self._status().flows if flow.state != "running"]
                if missing:
                    return PageAnswer(503, TEXT, "".join(f"{each}\n" for each in missing).encode())
                return PageAnswer(200, TEXT, b"ok\n")
            case _:
                return PageAnswer(404, TEXT, b"the pages are /status, /metrics, /healthz and /readyz\n")
