"""The report of broker-analytics at /report: access to it, and its permissions in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from dashboard import report_file
from dashboard.context import IDENTITY, Context
from dashboard.security import Security, SecurityConfig
from dashboard.security.headers import SANDBOXED_PATH, PageHeaders
from dashboard.security.roles import LOOPBACK, Identity, Role, Scope
from spark_analytics.report import page
from tests.dashboard.server.application import visitor
from tests.support.report_content import report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "report.html"
    page.write(report(), found)
    return found


def visit(state: Path, path: Path | None, work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with visitor(state, path) as client:
            await work(client)

    asyncio.run(run())


def test_the_report_is_served_in_a_sandbox(tmp_path: Path, path: Path) -> None:
    """If this fails, scripts of a report can act as the viewer or send data elsewhere, or do not run at all."""

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/report")
        assert (answer.status_code, answer.content) == (200, path.read_bytes())
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
        assert "allow-same-origin" not in policy
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        assert "connect-src" not in policy  # nothing, from default-src
        assert policy.count("sha256-") == 3
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
        assert "cross-origin-opener-policy" not in answer.headers
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        other = await client.get("/healthz")
        assert "frame-src 'self'" in other.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in other.headers["content-security-policy"]

    visit(tmp_path / "state", path, work)


def test_without_the_option_there_is_no_report(tmp_path: Path) -> None:
    """If this fails, every dashboard links to a missing page, or allows frames that it does not need."""

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/report")
        assert "sandbox" not in answer.headers["content-security-policy"]
        assert "frame-src" not in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"

    visit(tmp_path / "state", None, work)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "report.html does not exist yet."),
        ("<html><script>1</script></html>", "report.html is no report of broker-analytics."),
        ("x" * 5_000 + '<meta http-equiv="Content-Security-Policy" content="script-src \'sha256-x\'">', "is no report"),
    ],
)
def test_another_file_is_not_served(tmp_path: Path, path: Path, text: str | None, reason: str) -> None:
    """If this fails, a wrong path in the configuration publishes a file of the machine."""
    path.unlink()
    if text is not None:
        path.write_text(text)

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/report")
        assert (answer.status_code, reason in answer.text) == (400, True)
        assert answer.headers["x-frame-options"] == "DENY"

    visit(tmp_path / "state", path, work)


def test_a_file_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a wrong path exhausts the dashboard's memory."""
    monkeypatch.setattr(report_file, "BYTES_MAX", 1_000)
    assert "at most 1,000 are shown" in report_file.problem(path)


@pytest.mark.parametrize(
    ("scope", "status"), [(Scope(), 200), (Scope(topics=("orders*",)), 403), (Scope(clusters=("main",)), 403)]
)
def test_who_sees_only_some_topics_sees_no_report(tmp_path: Path, path: Path, scope: Scope, status: int) -> None:
    """If this fails, a user reads the names and figures of topics that are hidden everywhere else."""

    async def work() -> None:
        security = Security(SecurityConfig("127.0.0.1", 8050, tmp_path / "state"))
        try:
            app = Starlette(routes=report_file.routes(Context({}, security, report=path)))
            token = IDENTITY.set(Identity("vera", Role.VIEWER, scope, LOOPBACK, "127.0.0.1"))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://d") as client:
                answer = await client.get("/report")
            IDENTITY.reset(token)
        finally:
            security.close()
        assert answer.status_code == status
        assert ("your account sees only some" in answer.text) == (status == 403)

    asyncio.run(work())


def test_no_other_response_gets_a_policy_of_its_own() -> None:
    """If this fails, a handler can switch off the policy of the dashboard, or the report that of its sandbox."""
    headers = PageHeaders(tls=False)
    own = (b"Content-Security-Policy", b"sandbox allow-scripts; script-src *")
    loose = (b"Content-Security-Policy", b"default-src *")
    for path, status, given, kept in (
        (SANDBOXED_PATH, 200, [own], True),
        (SANDBOXED_PATH, 404, [own], False),
        (SANDBOXED_PATH, 200, [loose], False),
        (SANDBOXED_PATH, 200, [own, loose], False),
        ("/reports", 200, [own], False),
    ):
        policy = dict(headers.applied(list(given), None, path=path, status=status))[b"content-security-policy"]
        assert (policy == own[1]) == kept
        assert b"*" not in policy or kept
