"""An instance of Confluent's registry as ours sees it: a member of the group, and a server of forwarded requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.client.group_member import Assign, GroupMember, MemberSettings, Mode, Revoke, Send
from tests.support.wait import until

JOIN_S = 60.0


class Forwarded(NamedTuple):
    """A request that came from another instance."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class JsonProtocol:
    """The group's protocol with the JSON of Confluent's registry, written out here."""

    protocol_type = "sr"
    mode = Mode.EAGER

    def __init__(self, identity: dict[str, Any]) -> None:
        self.identity = identity

    def metadata(self, owned: frozenset[str]) -> Sequence[tuple[str, bytes]]:
        return [("v0", json.dumps(self.identity).encode())]

    def parts(self, assignment: bytes) -> frozenset[str]:
        found = json.loads(assignment)
        assert found["version"] == 1
        assert found["error"] == 0
        leader = found.get("master_identity")
        return frozenset() if leader is None else frozenset({_url(leader)})

    def assignments(self, task: Assign) -> dict[str, bytes]:
        members = {each.member_id: json.loads(each.metadata) for each in task.members}
        found: dict[str, Any] = {"error": 0, "version": 1}
        eligible = [(_url(each), name) for name, each in members.items() if each["master_eligibility"]]
        if eligible:
            _, chosen = min(eligible)
            found |= {"master": chosen, "master_identity": members[chosen]}
        return dict.fromkeys(members, json.dumps(found).encode())


def _url(identity: dict[str, Any]) -> str:
    return f"{identity['scheme']}://{identity['host']}:{identity['port']}"


class Peer:
    """`answers` are status and body for the next requests. `leader` is the URL of the elected instance."""

    def __init__(self, bootstrap: str, group: str, *, is_eligible: bool) -> None:
        self.forwarded: list[Forwarded] = []
        self.answers: list[tuple[int, Any]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        identity = {
            "host": "127.0.0.1",
            "port": self.server.server_port,
            "master_eligibility": is_eligible,
            "scheme": "http",
            "version": 1,
            "leader": False,
        }
        self._bootstrap = bootstrap
        self._protocol = JsonProtocol(identity)
        self._member = GroupMember(MemberSettings(group, 10_000, 300, 60_000), self._protocol)
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self.server.serve_forever, daemon=True),
            threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True),
        ]
        for each in self._threads:
            each.start()

    @property
    def leader(self) -> str | None:
        return next(iter(self._member.owned), None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                peer.forwarded.append(Forwarded(self.command, self.path, headers, json.loads(body)))
                status, answer = peer.answers.pop(0)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler

    async def _run(self) -> None:
        async with AdminClient(self._bootstrap) as client:
            link = client.coordinator_link(self._member)
            loop = asyncio.get_running_loop()
            while not self._is_over.is_set():
                action = self._member.next(loop.time())
                if isinstance(action, Send):
                    await link.exchange(action)
                elif isinstance(action, Revoke):
                    self._member.revoked(action.parts)
                elif isinstance(action, Assign):
                    self._member.assigned(action, self._protocol.assignments(action))
                else:
                    await asyncio.sleep(min(0.05, self._member.wait_s(loop.time())))
            send = self._member.leave()
            if send is not None:
                await link.exchange(send)

    def close(self) -> None:
        self._is_over.set()
        self.server.shutdown()
        self.server.server_close()
        for each in self._threads:
            each.join(JOIN_S)


@contextmanager
def peer_of(bootstrap: str, group: str, *, is_eligible: bool) -> Iterator[Peer]:
    """A peer that has been in an election."""
    found = Peer(bootstrap, group, is_eligible=is_eligible)
    try:
        until(lambda: found.leader or not is_eligible, "an election", JOIN_S)
        yield found
    finally:
        found.close()
