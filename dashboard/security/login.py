"""The pages of login and logout: plain HTML from the server, without JavaScript.

Failed logins are limited by address and by user. After five failures the next attempt must wait 1, 2, 4, ... s, at most
a minute; an earlier attempt is answered with 429, and the password is not checked. The limit by user does not apply to
addresses from which the user has logged in before, so that other clients cannot lock a user out.
"""

from __future__ import annotations

import html
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from broker_cy.http.limits import Buckets, Failures, KnownPlaces, address_key
from dashboard.security.core import Security
from dashboard.security.roles import PASSWORD, Identity
from dashboard.security.targets import local_path
from dashboard.security.users import NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX, Busy, User

# A form has a name, a password and a path, each percent-encoded.
FORM_BYTES_MAX: Final = 32 << 10
_FIELDS_MAX: Final = 8
_BUSY_RETRY_S: Final = 5
# Delayed attempts that are noted in the audit log, by address.
_NOTES_BURST: Final = 5
_NOTES_A_MINUTE: Final = 5
_FORM_TYPE: Final = "application/x-www-form-urlencoded"

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - broker-dash</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/login.css">
{head}</head>
<body>
<main>
<h1>{title}</h1>
{content}
</main>
</body>
</html>
"""


class _BadForm(Exception):
    """The body is not a form, or is too large; the message says which."""


def page(
    title: str, content: str, status: int = 200, headers: dict[str, str] | None = None, *, head: str = ""
) -> HTMLResponse:
    """Return a page; `content` and `head` are HTML, in which the caller has escaped foreign texts."""
    return HTMLResponse(_PAGE.format(title=html.escape(title), content=content, head=head), status, headers)


def identity_of(request: Request) -> Identity | None:
    """Return the identity that the guard put into the request."""
    found = request.scope.get("state", {}).get("identity")
    return found if isinstance(found, Identity) else None


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of the form; the first value of a repeated field. Raises _BadForm."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise _BadForm(f"the body must be {_FORM_TYPE}")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES_MAX:
            raise _BadForm(f"the form has more than {FORM_BYTES_MAX:,} bytes")
    try:
        found = parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise _BadForm(f"the form has more than {_FIELDS_MAX} fields") from None
    return {name: values[0] for name, values in found.items()}


class LoginPages:
    """The endpoints. `clock` times the limits."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._by_address = Failures(security.clock)
        self._by_user = Failures(security.clock)
        self._known = KnownPlaces()
        self._notes = Buckets(security.clock, burst=_NOTES_BURST, per_minute=_NOTES_A_MINUTE)
        self._css = files("dashboard.security").joinpath("login.css").read_bytes()

    async def css(self, request: Request) -> Response:
        return Response(self._css, media_type="text/css")

    async def show(self, request: Request) -> Response:
        target = local_path(request.query_params.get("next", ""))
        if identity_of(request) is not None:
            return RedirectResponse(target, 303)
        return self._page(target)

    async def log_in(self, request: Request) -> Response:
        security = self._security
        if security.users is None:
            return PlainTextResponse("there are no users with a password: log in with the identity provider", 404)
        try:
            form = await _form(request)
        except _BadForm as error:
            return PlainTextResponse(f"{error}\n", 400)
        address = request.client.host if request.client else ""
        name, target = form.get("name", "").strip(), local_path(form.get("next", ""))
        place, who = address_key(address), name[: NAME_CHARACTERS_MAX + 1]
        wait_s = self._by_address.wait_s(place)
        if (who, place) not in self._known:
            wait_s = max(wait_s, self._by_user.wait_s(who))
        if wait_s:
            if self._notes.take(place):
                self._note(who, address, f"refused: too many failed logins, {wait_s} s to wait")
            text = f"There were too many failed logins. Try again in {wait_s} s."
            return self._page(target, text, 429, {"Retry-After": str(wait_s)}, name)
        self._by_address.begin(place)
        self._by_user.begin(who)
        try:
            user = await security.users.verify(name, form.get("password", ""))
        except Busy:
            self._by_address.refund(place)
            self._by_user.refund(who)
            text = "The dashboard is busy. Try again in a few seconds."
            return self._page(target, text, 503, {"Retry-After": str(_BUSY_RETRY_S)}, name)
        if user is None:
            problem = "; the users file is not valid" if security.users.problem else ""
            self._note(who, address, f"refused: wrong name or password{problem}")
            if problem:
                return self._page(
                    target, "Logins are not possible now: the log of the dashboard says why.", 503, None, name
                )
            return self._page(target, "The name or the password is wrong.", 401, None, name)
        self._by_address.refund(place)
        self._by_user.clear(who)
        self._known.note(who, place)
        return self._logged_in(user, identity_of(request), address, target)

    def _logged_in(self, user: User, before: Identity | None, address: str, target: str) -> Response:
        sessions = self._security.sessions
        if before is not None and before.session is not None:
            sessions.revoke(before.session)
        value, _ = sessions.issue(user.name, PASSWORD, user.fingerprint())
        self._note(user.name, address, "done")
        return RedirectResponse(target, 303, {"Set-Cookie": sessions.cookie_header(value)})

    def _note(self, user: str, address: str, result: str, act: str = "login") -> None:
        self._security.audit.note(user=user, address=address, act=act, result=result)

    def _page(
        self, target: str, problem: str = "", status: int = 200, headers: dict[str, str] | None = None, name: str = ""
    ) -> HTMLResponse:
        security = self._security
        parts = [f'<p role="alert" id="problem">{html.escape(problem)}</p>'] if problem else []
        if security.users is not None:
            described = ' aria-describedby="problem"' if problem else ""
            # After a failure the form keeps the name, and the password has the focus.
            focus = ("", " autofocus") if name else (" autofocus", "")
            parts.append(
                '<form method="post" action="/login">\n'
                f'<input type="hidden" name="next" value="{html.escape(target)}">\n'
                '<label for="name">Name</label>\n'
                f'<input id="name" name="name" value="{html.escape(name[:NAME_CHARACTERS_MAX])}" '
                'autocomplete="username" autocapitalize="none" spellcheck="false" '
                f'maxlength="{NAME_CHARACTERS_MAX}" required'
                f"{described}{focus[0]}>\n"
                '<label for="password">Password</label>\n'
                '<input id="password" name="password" type="password" autocomplete="current-password" '
                f'maxlength="{PASSWORD_CHARACTERS_MAX}" required{described}{focus[1]}>\n'
                '<button type="submit">Log in</button>\n'
                "</form>"
            )
        if security.oidc is not None:
            link = html.escape(f"/oidc/login?next={quote(target, safe='')}")
            provider = html.escape(security.oidc.provider)
            parts.append(f'<a class="button" href="{link}">Log in with {provider}</a>')
        return page("Log in", "\n".join(parts), status, headers)

    async def ask_logout(self, request: Request) -> Response:
        identity = identity_of(request)
        if identity is None or identity.session is None:
            return RedirectResponse("/", 303)
        return page(
            "Log out",
            f"<p>You are logged in as {html.escape(identity.name)}, with the role {identity.role.text}.</p>\n"
            '<form method="post" action="/logout">\n'
            f'<input type="hidden" name="csrf" value="{self._security.csrf_token(identity)}">\n'
            '<button type="submit">Log out</button>\n</form>\n'
            '<a class="button" href="/">Back to the dashboard</a>',
        )

    async def log_out(self, request: Request) -> Response:
        identity = identity_of(request)
        if identity is None or identity.session is None:
            return RedirectResponse("/", 303)
        try:
            form = await _form(request)
        except _BadForm as error:
            return PlainTextResponse(f"{error}\n", 400)
        if not self._security.is_csrf_token(identity, form.get("csrf", "")):
            self._note(identity.name, identity.address, "refused: the form's token is wrong", "logout")
            return PlainTextResponse("the form's token is wrong: open /logout and try again\n", 403)
        self._security.sessions.revoke(identity.session)
        self._note(identity.name, identity.address, "done", "logout")
        return RedirectResponse("/login", 303, {"Set-Cookie": self._security.sessions.clearing_header()})
