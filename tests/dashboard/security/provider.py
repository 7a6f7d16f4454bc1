"""A small identity provider on loopback, whose responses a test can corrupt."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from broker_cy.client.errors import ClientError, Failure
from dashboard.security import OidcConfig, parse_oidc
from tests.dashboard.security.kit import ORIGIN
from tests.support.wait import until

CLIENT_ID = "broker-dash"
SECRET = "a secret of the client"
Claims = dict[str, Any]


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Provider:
    """The provider. A test can change the `claims` before signing, the `metadata`, and `sign`, which makes the
    token.
    """

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        # Another site than 127.0.0.1, as in practice: cookies depend on it.
        self.issuer = f"http://localhost:{self.port}"
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        self.claims: Claims = {}
        self.metadata: Claims = {}
        self.sign: Callable[[Claims], str] = self.signed
        self.now_s: Callable[[], float] = time.time
        self.codes: dict[str, dict[str, str]] = {}
        self.key_requests = 0
        routes = [
            Route("/.well-known/openid-configuration", self._configuration),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
        ]
        self.server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.listener])))

    def __enter__(self) -> Provider:
        self.thread.start()
        until(lambda: self.server.started, "the provider")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        self.listener.close()

    def signed(self, claims: Claims) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def authorize(self, url: str) -> str:
        """Log in as the browser at the authorization endpoint; return path and query of the redirect."""
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}" == self.issuer
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"{urlsplit(query['redirect_uri']).path}?{urlencode({'code': code, 'state': query['state']})}"

    async def _authorize(self, request: Request) -> Response:
        """Log in any visitor, without a page."""
        redirect = urlsplit(request.query_params["redirect_uri"])
        return RedirectResponse(f"{redirect.scheme}://{redirect.netloc}{self.authorize(str(request.url))}", 303)

    async def _configuration(self, request: Request) -> Response:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return JSONResponse({**found, **self.metadata})

    async def _keys(self, request: Request) -> Response:
        self.key_requests += 1
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def _token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        expected = base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
        query = self.codes.pop(form.get("code", ""), None)
        challenge = base64url(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            query is None
            or request.headers.get("authorization") != f"Basic {expected}"
            or challenge != query["code_challenge"]
            or form.get("redirect_uri") != query["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now_s = int(self.now_s())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "1",
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": query["nonce"],
            "preferred_username": "olga",
            "groups": ["staff", "kafka-team"],
        }
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value is not None}
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)})


def refuse(reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what="dashboard.toml")


def table(tmp_path: Path, at: str, **changes: Any) -> tuple[dict[str, Any], Path]:
    """A valid table of the configuration with changes (None removes a field), and the file's path."""
    secret = tmp_path / "client.secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    fields = {
        "issuer": at,
        "client_id": CLIENT_ID,
        "client_secret_file": "client.secret",
        "redirect_url": f"{ORIGIN}/oidc/callback",
        "roles": {"kafka-admins": "admin", "kafka-team": "operator"},
        "patterns": {"operator": {"topics": ["orders*"]}},
    }
    merged = {name: value for name, value in {**fields, **changes}.items() if value is not None}
    return merged, tmp_path / "dashboard.toml"


def config(tmp_path: Path, provider: Provider, **changes: Any) -> OidcConfig:
    return parse_oidc(*table(tmp_path, provider.issuer, **changes), refuse)
