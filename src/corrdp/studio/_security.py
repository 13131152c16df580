"""Who may talk to the studio: this machine, this browser, this page.

The server listens on the loopback alone. That is not enough: any page in the same
browser can send requests there. So the Host header must be the address itself (a name
that was rebound to it is refused), a cookie must have been exchanged for the token of
the address, and whatever changes something must come from a form of the studio.
"""

import hmac
import secrets
import sys
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corrdp._defects import WITHHELD, defect_text

FORM_FIELD = "form_key"
STRICT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# A report brings its own scripts; it gets an origin of its own, without cookies.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; img-src data:; frame-ancestors 'none'"
)


class Keys:
    """The token of the address, the key of the cookie, the key of all forms."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        # Browsers send cookies to all ports of a host: each studio has its own name.
        self.cookie_name = f"corrdp_studio_{secrets.token_hex(4)}"
        self.form = secrets.token_urlsafe(32)
        self._exchanged = False

    def exchange(self, token: str) -> str | None:
        """Return the cookie for the token, the first time it is shown; else None."""
        if self._exchanged or not hmac.compare_digest(
            token.encode(), self.token.encode()
        ):
            return None
        self._exchanged = True
        return self._cookie

    def knows_cookie(self, cookie: str | None) -> bool:
        """Return whether a request brings the cookie."""
        return cookie is not None and hmac.compare_digest(
            cookie.encode(), self._cookie.encode()
        )

    def knows_form(self, key: str) -> bool:
        """Return whether a form is one of the studio."""
        return hmac.compare_digest(key.encode(), self.form.encode())


class Gate:
    """Refuse what does not come from the studio's own page; add headers to the rest."""

    def __init__(self, app: ASGIApp, *, keys: Keys, hosts: frozenset[str]) -> None:
        self._app, self._keys, self._hosts = app, keys, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Request(scope))

        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                _add_headers(MutableHeaders(scope=message))
            await send(message)

        try:
            await (refusal or self._app)(scope, receive, watched)
        except Exception as error:
            # Not left to the server, which would print the error's own words.
            print(defect_text(error), file=sys.stderr)
            if not started:
                await _STOPPED(scope, receive, watched)

    def _refusal(self, request: Request) -> Response | None:
        if request.headers.get("host", "") not in self._hosts:
            return _refused(
                HTTPStatus.MISDIRECTED_REQUEST, "another host was asked for"
            )
        if not _same_origin(request.headers, self._hosts):
            return _refused(HTTPStatus.FORBIDDEN, "the request comes from another page")
        known = self._keys.knows_cookie(request.cookies.get(self._keys.cookie_name))
        token = request.query_params.get("token")
        if token is not None and request.method == "GET":
            return self._exchanged(token, known)
        if not known:
            return _refused(
                HTTPStatus.FORBIDDEN, "open the address that corrdp studio printed"
            )
        return None

    def _exchanged(self, token: str, known: bool) -> Response:
        cookie = self._keys.exchange(token)
        if cookie is None and not known:
            return _refused(
                HTTPStatus.FORBIDDEN,
                "the token of this address is wrong or was used; start corrdp studio "
                "again",
            )
        response = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
        if cookie is not None:
            name = self._keys.cookie_name
            response.set_cookie(name, cookie, httponly=True, samesite="strict")
        return response


def _same_origin(headers: Headers, hosts: frozenset[str]) -> bool:
    """Return whether a browser says that a request comes from the studio itself."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site not in (None, "none", "same-origin"):
        return False
    # Pages that send no referrer send the origin "null" with their forms; only the
    # browser itself can say that such a request is of the same origin.
    own = {f"http://{host}" for host in hosts}
    return (
        origin is None or origin in own or (origin == "null" and site == "same-origin")
    )


_STOPPED = PlainTextResponse(
    "Stopped by an error that was not foreseen. Where it came from is told in the "
    f"terminal of corrdp studio. {WITHHELD}\n",
    status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
)


def _refused(status: HTTPStatus, why: str) -> Response:
    return PlainTextResponse(f"Refused: {why}.\n", status_code=status)


def _add_headers(headers: MutableHeaders) -> None:
    headers.setdefault("Content-Security-Policy", STRICT_POLICY)
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cache-Control"] = "no-store"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
