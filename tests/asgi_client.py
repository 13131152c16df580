"""Send requests to an application in this process, headers and all."""

import asyncio
from http.cookies import SimpleCookie
from typing import NamedTuple
from urllib.parse import urlencode


class Answer(NamedTuple):
    """What came back."""

    status_code: int
    headers: dict[str, str]
    text: str


class Client:
    """A browser without a window: keeps cookies, follows redirects if told to."""

    def __init__(self, app, host, *, follow=False):
        self.app, self.host, self.follow = app, host, follow
        self.cookies = {}

    def get(self, path, *, params=None, headers=None):
        return self._send("GET", path, urlencode(params or {}), b"", headers)

    def post(self, path, *, data=None, body=None, kind=None, headers=None):
        kind = kind or "application/x-www-form-urlencoded"
        body = urlencode(data or {}).encode() if body is None else body
        return self._send(
            "POST", path, "", body, {"content-type": kind} | (headers or {})
        )

    def _send(self, method, path, query, body, headers):
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        every = {"host": self.host} | ({"cookie": cookie} if cookie else {})
        every |= headers or {}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in every.items()],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        answer = asyncio.run(self._answer(scope, body))
        for name, morsel in SimpleCookie(answer.headers.get("set-cookie")).items():
            self.cookies[name] = morsel.value
        if self.follow and 300 <= answer.status_code < 400:
            return self.get(answer.headers["location"])
        return answer

    async def _answer(self, scope, body):
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        headers = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        text = b"".join(m.get("body", b"") for m in sent[1:]).decode()
        return Answer(sent[0]["status"], headers, text)
