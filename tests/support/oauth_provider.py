"""An OAuth provider for tests: keys, tokens, and a server on the loopback interface that has its keys."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

AUDIENCE, ISSUER = "kafka", "https://idp.example.com"


def rsa_key(key_id: str, bits: int = 2_048) -> RSAKey:
    return RSAKey.generate_key(bits, {"kid": key_id})


def ec_key(key_id: str, curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": key_id})


def key_set(*keys: RSAKey | ECKey | OctKey, **fields: Any) -> bytes:
    return json.dumps({"keys": [{**key.as_dict(private=False), **fields} for key in keys]}).encode()


def claims(user: str = "alice", lifetime_s: float = 86_400, **fields: Any) -> dict[str, Any]:
    """Return the claims; fields that are None are left out."""
    now_s = int(time.time())
    found = {"sub": user, "iat": now_s, "exp": now_s + lifetime_s, "aud": AUDIENCE, "iss": ISSUER, "scope": "read"}
    return {name: value for name, value in (found | fields).items() if value is not None}


def token(
    key: RSAKey | ECKey | OctKey, found: dict[str, Any] | None = None, algorithm: str = "RS256", **header: Any
) -> str:
    """A signed token; its header has the key's id unless `kid` is given (None: no id)."""
    protected = {"alg": algorithm, "kid": key.kid, **header}
    protected = {name: value for name, value in protected.items() if value is not None}
    payload = json.dumps(claims() if found is None else found)
    return jws.serialize_compact(protected, payload, key, algorithms=[algorithm])


class Provider:
    """Serves `keys` at `url`; any other path redirects there. A client that posts `secret` (id:secret) to `token_url`
    gets a token signed with `key` for the user `id`, valid for `lifetime_s`. Use as a context manager.
    """

    def __init__(
        self, keys: bytes, key: RSAKey | ECKey | None = None, secret: str = "node:secret", lifetime_s: int = 60
    ) -> None:
        self.keys = keys
        self.requests = 0
        # The number of issued tokens, and of refused requests for one.
        self.given = self.refused = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                is_keys = self.path == "/keys"
                self.send_response(200 if is_keys else 302)
                if not is_keys:
                    self.send_header("Location", outer.url)
                self.end_headers()
                self.wfile.write(outer.keys if is_keys else b"")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                expected = base64.b64encode(secret.encode()).decode()
                if key is None or self.path != "/token" or self.headers["Authorization"] != f"Basic {expected}":
                    outer.refused += 1
                    self.send_error(401)
                    return
                outer.given += 1
                text = token(key, claims(secret.partition(":")[0], lifetime_s))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"access_token": text, "expires_in": lifetime_s}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        self.token_url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
