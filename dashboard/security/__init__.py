"""Security of the web dashboard: login, roles, sessions, the guard of every request, masking and the audit log.

An application builds a SecurityConfig and a Security, adds the `routes` of it, and runs behind the `Guard`:

    security = Security(SecurityConfig("127.0.0.1", 8050, state_directory))
    app.router.routes[:0] = routes(security)
    uvicorn.run(Guard(app, security), proxy_headers=False, server_header=False, ...)

Modules: core (Security), roles (who may do what), users (the users file), sessions (the cookie), guard (every request:
broker_cy.http.edge with this login; headers are its part), login and oidc (pages), targets (the page after a login),
routes (of both), masking, audit, user_commands (`broker-dash user`), files and fields (private files, values of
configuration tables).
"""

from dashboard.security.audit import Audit, Entry
from dashboard.security.core import Security, SecurityConfig
from dashboard.security.masking import Mask, Masking, parse_masks
from dashboard.security.oidc_config import OidcConfig, parse_oidc
from dashboard.security.roles import Identity, Need, Role, Scope, decide

__all__ = [
    "Audit",
    "Entry",
    "Identity",
    "Mask",
    "Masking",
    "Need",
    "OidcConfig",
    "Role",
    "Scope",
    "Security",
    "SecurityConfig",
    "decide",
    "parse_masks",
    "parse_oidc",
]
