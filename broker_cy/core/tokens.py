"""Delegation tokens (KIP-48): the secret of a token. It is the HMAC-SHA-512 of the token's id with
delegation.token.secret.key, so each node that has the key knows it, and no record contains it.
"""

from __future__ import annotations

import base64
import hmac


def hmac_of(secret_key: str, token_id: str) -> bytes:
    """The secret that a holder of the token knows."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> str:
    """The password of a client's login by SCRAM; its user is the id of the token."""
    return base64.b64encode(token_hmac).decode()
