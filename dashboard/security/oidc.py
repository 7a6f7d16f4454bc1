"""Login through an identity provider: OpenID Connect with the authorization code flow and PKCE.

GET /oidc/login stores state, nonce and code verifier in a signed cookie of ten minutes and redirects to the provider;
GET /oidc/callback takes its answer. The callback is accepted only from the browser with that cookie, once for each
state. The ID token must be signed with one of the provider's keys and an asymmetric algorithm, and have the configured
issuer and audience, a time that has not passed, and the nonce. Name and roles are claims of the ID token; the user-info
endpoint is not asked. The provider's addresses come from its metadata, the issuer's from the configuration: a user
names no host.

Users see only a general message if a login fails; the log of the dashboard has the reason.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import json
import logging
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from authlib.deprecate import AuthlibDeprecationWarning  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from broker_cy.http.limits import Buckets, address_key
from dashboard.security.core import Security
from dashboard.security.login import identity_of, page
from dashboard.security.oidc_config import CALLBACK_PATH, OidcConfig, problem_of_url
from dashboard.security.roles import OIDC, Role
from dashboard.security.targets import local_path
from dashboard.security.users import check_name

with warnings.catch_warnings():
    # Authlib prefers the package httpx2, and warns whenever it is imported with httpx.
    warnings.filterwarnings("ignore", category=AuthlibDeprecationWarning)
    from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError  # type: ignore[import-untyped]

# Time for a user to log in at the provider.
PENDING_S: Final = 600
# States that were used within PENDING_S.
USED_MAX: Final = 10_000
# Metadata and keys are requested again after this time. Keys are also requested for a token with an unknown key, at
# most once a minute.
CACHED_S: Final = 3_600
_KEYS_RETRY_S: Final = 60
# Timeouts: for one answer of the provider, and for all answers to one request of a user.
DOCUMENT_BYTES_MAX: Final = 1 << 20
TIMEOUT_S: Final = 15.0
TOKEN_CHARACTERS_MAX: Final = 64 << 10
_CODE_CHARACTERS_MAX: Final = 4_096
# Clocks of the provider and of the dashboard may differ by this much.
_LEEWAY_S: Final = 60
# Never none, and no symmetric algorithm: a provider's public key must not become the secret of a signature.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_ATTEMPTS_BURST: Final = 20
_ATTEMPTS_A_MINUTE: Final = 20
_PENDING: Final = b"oidc\0"

_log = logging.getLogger(__name__)


class OidcError(Exception):
    """A login through the provider failed; the message is for the log."""


class Pending(NamedTuple):
    """A login that the provider has not answered yet."""

    state: str
    nonce: str
    verifier: str
    target: str
    expires_s: int


@dataclass(slots=True)
class _Cached:
    value: Any
    at_s: float


class Oidc:
    """The identity provider of one dashboard."""

    def __init__(self, config: OidcConfig, security: Security) -> None:
        self.config = config
        self._security = security
        self._metadata: _Cached | None = None
        self._keys: _Cached | None = None
        self._used: dict[str, int] = {}
        self._attempts = Buckets(security.clock, burst=_ATTEMPTS_BURST, per_minute=_ATTEMPTS_A_MINUTE)

    def routes(self) -> list[Route]:
        return [
            Route("/oidc/login", self.log_in, methods=["GET"]),
            Route(CALLBACK_PATH, self.answer, methods=["GET"]),
        ]

    @property
    def cookie(self) -> str:
        return f"{self._security.sessions.cookie}_oidc"

    async def log_in(self, request: Request) -> Response:
        """Redirect the browser to the provider."""
        target = local_path(request.query_params.get("next", ""))
        if identity_of(request) is not None:
            return RedirectResponse(target, 303)
        if not self._is_allowed(request):
            return self._failed("There were too many attempts. Try again in a minute.", 429)
        expires_s = int(self._security.clock()) + PENDING_S
        pending = Pending(
            secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), target, expires_s
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                endpoint = (await self._provider())["authorization_endpoint"]
        except Exception as error:
            return self._refused(request, error)
        url, _ = self._client().create_authorization_url(
            endpoint, state=pending.state, code_verifier=pending.verifier, nonce=pending.nonce
        )
        value = self._security.sessions.signer.sign(_PENDING, list(pending))
        return RedirectResponse(url, 303, {"Set-Cookie": self._cookie_header(value, PENDING_S)})

    async def answer(self, request: Request) -> Response:
        """Take the provider's answer: log the user in, or say that the login failed."""
        if not self._is_allowed(request):
            return self._failed("There were too many attempts. Try again in a minute.", 429)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                pending = self._pending(request)
                code = self._code(request.query_params)
                claims = await self._claims(code, pending)
                name, role = self._granted(claims)
        except Exception as error:
            return self._refused(request, error)
        sessions = self._security.sessions
        before = identity_of(request)
        if before is not None and before.session is not None:
            sessions.revoke(before.session)
        value, _ = sessions.issue(name, OIDC, self.config.fingerprint(role.text), role.text)
        self._note(request, name, "done")
        # The answer is a page that continues by itself, not a redirect: browsers do not send a SameSite=Strict cookie
        # with a redirect that another site began.
        target = html.escape(pending.target)
        head = f'<meta http-equiv="refresh" content="0;url={target}">\n'
        response = page("Logged in", f'<p><a href="{target}">Continue</a></p>', head=head)
        response.headers.append("Set-Cookie", sessions.cookie_header(value))
        response.headers.append("Set-Cookie", self._cookie_header("", 0))
        return response

    def _is_allowed(self, request: Request) -> bool:
        return self._attempts.take(address_key(request.client.host if request.client else ""))

    def _pending(self, request: Request) -> Pending:
        """Return the login that the answer belongs to; its state cannot be used again. Raises OidcError."""
        fields = self._security.sessions.signer.open(_PENDING, request.cookies.get(self.cookie, ""))
        if fields is None or len(fields) != len(Pending._fields):
            raise OidcError("the browser has no login under way")
        state, nonce, verifier, target, expires_s = fields
        now_s = self._security.clock()
        if not isinstance(expires_s, int) or now_s >= expires_s:
            raise OidcError(f"the login took more than {PENDING_S} s")
        pending = Pending(str(state), str(nonce), str(verifier), str(target), expires_s)
        given = request.query_params.getlist("state")
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(), pending.state.encode()):
            raise OidcError("the state is not the one of this browser's login")
        if pending.state in self._used:
            raise OidcError("the state was used before")
        if len(self._used) >= USED_MAX:
            self._used = {each: at for each, at in self._used.items() if at > now_s}
        if len(self._used) >= USED_MAX:
            raise OidcError(f"more than {USED_MAX:,} logins within {PENDING_S} s")
        self._used[pending.state] = pending.expires_s
        return pending

    def _code(self, query: Mapping[str, str]) -> str:
        if "error" in query:
            raise OidcError(f"the provider answered {query['error'][:100]!r}")
        if query.get("iss", self.config.issuer) != self.config.issuer:
            raise OidcError("the answer is from another issuer")
        code = query.get("code", "")
        if not 1 <= len(code) <= _CODE_CHARACTERS_MAX:
            raise OidcError("the answer has no code")
        return code

    async def _claims(self, code: str, pending: Pending) -> dict[str, Any]:
        """Exchange the code for the ID token and return its claims. Raises OidcError, JoseError and others."""
        provider = await self._provider()
        methods = provider.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        async with self._client(method) as client:
            answer = await client.fetch_token(
                provider["token_endpoint"],
                grant_type="authorization_code",
                code=code,
                code_verifier=pending.verifier,
                redirect_uri=self.config.redirect_url,
            )
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > TOKEN_CHARACTERS_MAX:
            raise OidcError("the provider sent no ID token")
        return self._checked(await self._verified(token, provider["jwks_uri"]), pending.nonce)

    async def _verified(self, token: str, url: str) -> dict[str, Any]:
        """Return the claims of a token with a valid signature. Raises JoseError or ValueError."""
        keys = await self._key_set(url, CACHED_S)
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            # The provider may have changed its keys.
            again = await self._key_set(url, _KEYS_RETRY_S)
            if again is keys:
                raise
            return jwt.decode(token, again, algorithms=ALGORITHMS).claims

    def _checked(self, claims: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims if they are meant for this login. Raises OidcError or JoseError."""
        client_id = self.config.client_id
        jwt.JWTClaimsRegistry(
            now=int(self._security.clock()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self.config.issuer},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
        ).validate(claims)
        found = claims.get("nonce")
        if not isinstance(found, str) or not hmac.compare_digest(found.encode(), nonce.encode()):
            raise OidcError("the ID token has another nonce")
        audience = claims["aud"]
        is_shared = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", None if is_shared else client_id) != client_id:
            raise OidcError("the ID token was issued to another client")
        return claims

    def _granted(self, claims: Mapping[str, Any]) -> tuple[str, Role]:
        """Return the user's name and role. Raises OidcError."""
        config = self.config
        name = claims.get(config.name_claim)
        if not isinstance(name, str):
            raise OidcError(f"the ID token has no text in the claim {config.name_claim}")
        try:
            check_name(name)
        except ValueError as error:
            raise OidcError(f"claim {config.name_claim}: {error}") from None
        values = claims.get(config.claim, [])
        values = [values] if isinstance(values, str) else values if isinstance(values, list) else []
        roles = [config.roles[value] for value in values if isinstance(value, str) and value in config.roles]
        if not roles:
            raise OidcError(f"{name} has no role: none of the values of the claim {config.claim} is in oidc.roles")
        return name, max(roles)

    async def _provider(self) -> Mapping[str, Any]:
        """Return the provider's metadata. Raises OidcError, or an error of the connection."""
        now_s = self._security.clock()
        if self._metadata is None or not 0 <= now_s - self._metadata.at_s < CACHED_S:
            found = await self._document(self.config.issuer.rstrip("/") + "/.well-known/openid-configuration")
            if found.get("issuer") != self.config.issuer:
                raise OidcError(f"the metadata are of the issuer {found.get('issuer')!r}")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                url = found.get(name)
                problem = problem_of_url(url.partition("?")[0]) if isinstance(url, str) else "is missing"
                if problem:
                    raise OidcError(f"{name} of the metadata: {problem}")
            self._metadata = _Cached(found, now_s)
        metadata: Mapping[str, Any] = self._metadata.value
        return metadata

    async def _key_set(self, url: str, age_max_s: int) -> KeySet:
        now_s = self._security.clock()
        if self._keys is None or not 0 <= now_s - self._keys.at_s < age_max_s:
            found: Any = await self._document(url)
            self._keys = _Cached(KeySet.import_key_set(found), now_s)
        keys: KeySet = self._keys.value
        return keys

    async def _document(self, url: str) -> dict[str, Any]:
        """Return the JSON object at the URL, without following redirects."""
        data = b""
        async with self._client() as client, client.stream("GET", url, withhold_token=True) as response:
            if response.status_code != 200:
                raise OidcError(f"{url} answered {response.status_code}")
            async for part in response.aiter_bytes():
                data += part
                if len(data) > DOCUMENT_BYTES_MAX:
                    raise OidcError(f"{url} has more than {DOCUMENT_BYTES_MAX:,} bytes")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise OidcError(f"{url} is not a JSON object")
        return found

    def _client(self, method: str | None = None) -> Any:
        return AsyncOAuth2Client(
            self.config.client_id,
            self.config.client_secret,
            token_endpoint_auth_method=method,
            scope=" ".join(self.config.scopes),
            redirect_uri=self.config.redirect_url,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )

    def _cookie_header(self, value: str, age_s: int) -> str:
        # Lax: the provider's answer is a navigation from another site.
        secure = "; Secure" if self._security.sessions.is_secure else ""
        return f"{self.cookie}={value}; Max-Age={age_s}; Path=/; HttpOnly; SameSite=Lax{secure}"

    def _refused(self, request: Request, error: Exception) -> Response:
        """Answer with a page without the reason, which is in the log and the audit log."""
        is_known = isinstance(error, OidcError | JoseError | OAuthError)
        reason = str(error) if is_known else f"{type(error).__name__}: {error}"
        _log.warning("a login through %s failed: %s", self.config.issuer, reason)
        self._note(request, "", f"refused: {reason}")
        return self._failed("The login through the identity provider failed. The dashboard's log says why.", 403)

    def _failed(self, text: str, status: int) -> Response:
        content = f'<p role="alert">{html.escape(text)}</p>\n<a class="button" href="/login">Back to the login</a>'
        response = page("Login failed", content, status)
        response.headers.append("Set-Cookie", self._cookie_header("", 0))
        return response

    def _note(self, request: Request, user: str, result: str) -> None:
        address = request.client.host if request.client else ""
        self._security.audit.note(user=user, address=address, act="login", subject=self.config.issuer, result=result)
