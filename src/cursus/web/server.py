"""The live page: a server that reads run folders, and changes nothing.

It is bound to this machine unless told otherwise. Requests for other hosts are refused, so that no page of somebody else can
read runs by a name of its own; from other machines a token is needed.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cursus.errors import ConfigError, CursusError, SettingsError
from cursus.web.views import RunView, RunViews

_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "localhost", "::1": "[::1]"}
_STATIC = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/uplot.js": ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "/uplot.css": ("uPlot.min.css", "text/css; charset=utf-8"),
}
_JSON = "application/json"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{8,200}")
_MOST_STREAMS, _MOST_AT_ONCE = 32, 4
_LOOK_S, _READING_S, _ALIVE_S = 1.0, 0.1, 15.0
_REQUEST_TIMEOUT_S = 30.0


class PageServer:
    """Serves the page of all runs in a folder until it is closed.

    Args:
        folder: where the runs are; it may be a run itself, and need not hold any yet.
        host: the address to listen at (default `"127.0.0.1"`: this machine alone). With another one, `token` is needed.
        port: the port; 0 for any that is free (default 8400).
        token: what whoever looks must show, 8 or more letters, digits, `-` and `_` (default None: nothing here, a new one for
            other machines).
    """

    def __init__(self, folder: str | Path, *, host: str = "127.0.0.1", port: int = 8400, token: str | None = None) -> None:
        if not Path(folder).is_dir():
            raise SettingsError(f"{folder} is no folder. Give the one that your runs are in.")
        if token is not None and not _TOKEN.fullmatch(token):
            raise SettingsError("token: allowed are 8 to 200 letters, digits, '-' and '_'. Leave it out for a new one.")
        self.local = host in _LOOPBACK
        self.token = token if self.local else token or secrets.token_urlsafe(24)
        """What is needed to look at the page; None if nothing is."""
        self._name = _named(host)
        try:
            self._server = _Server((host, port), _Handler, RunViews(folder), self)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(
                f"the page cannot be served at {host} on port {port}: {reason}. Give another --port, or 0 for any that is free."
            ) from None
        self.port: int = self._server.server_address[1]
        """Where it listens."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="cursus page", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page, with the token if one is needed."""
        where = f"http://{self._name}:{self.port}/"
        return where if self.token is None else f"{where}?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie that keeps the token: all ports of a machine share their cookies."""
        return f"cursus-{self.port}"

    @property
    def hosts(self) -> frozenset[str] | None:
        """What a request may name as its host; None for anything, where a token is needed."""
        if not self.local:
            return None
        return frozenset(f"{name}{port}" for name in _LOOPBACK.values() for port in ("", f":{self.port}"))

    def close(self) -> None:
        """Stop serving."""
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[_Handler], runs: RunViews, page: PageServer) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)
        self.runs, self.page = runs, page
        self.stopping = threading.Event()
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in the middle of an answer is nobody's error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "cursus", ""
    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_TIMEOUT_S

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 – the name is that of the base class
        """Nothing: the terminal belongs to the training."""

    def do_GET(self) -> None:
        """Answer, if it is asked by someone who may."""
        path, _, asked = self.path.partition("?")
        query = parse_qs(asked)
        hosts = self.server.page.hosts
        if hosts is not None and self.headers.get("Host", "") not in hosts:
            return self._refuse(HTTPStatus.FORBIDDEN, "this page is for this machine alone, under its own name.")
        if path.startswith("/api/") and self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return self._refuse(HTTPStatus.FORBIDDEN, "only the page itself may ask for this.")
        if self.server.page.token is not None and not self._may_look(query):
            return self._refuse(HTTPStatus.UNAUTHORIZED, "open the address that `cursus serve` has printed, with its token.")
        if self.server.page.token is not None and "token" in query:
            return self._let_in(path)
        try:
            return self._answer(path, query)
        except CursusError as error:
            wrong = HTTPStatus.BAD_REQUEST if isinstance(error, ConfigError) else HTTPStatus.NOT_FOUND
            return self._refuse(wrong, str(error))

    def _may_look(self, query: Mapping[str, list[str]]) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.page.cookie)
        except CookieError:
            cookie = None
        shown = [*query.get("token", []), *([] if cookie is None else [cookie.value])]
        expected = (self.server.page.token or "").encode()
        return any(hmac.compare_digest(each.encode(), expected) for each in shown)

    def _let_in(self, path: str) -> None:
        """Keep the token in a cookie, so that it does not stand in addresses."""
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", path if path in _STATIC else "/")
        self.send_header("Set-Cookie", f"{self.server.page.cookie}={self.server.page.token}; HttpOnly; SameSite=Strict; Path=/")
        self._end(b"")

    def _answer(self, path: str, query: Mapping[str, list[str]]) -> None:
        names = query.get("name", [])
        if path in _STATIC:
            name, kind = _STATIC[path]
            return self._send((files("cursus.web") / "static" / name).read_bytes(), kind)
        if path == "/api/stream":
            return self._stream(names)
        if path == "/api/metric" and names:
            return self._send(self.server.runs.view(names[0]).metric(_first(query, "metric")), _JSON)
        if path == "/api/what-if" and names:
            return self._send(self.server.runs.view(names[0]).what_if(_number(_first(query, "threshold"))), _JSON)
        return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page.")

    # ---- what is sent

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self._end(body)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self._end(json.dumps({"error": reason}).encode())

    def _end(self, body: bytes) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # ---- what is told as it changes

    def _stream(self, names: list[str]) -> None:
        """Server-sent events: of the list of runs, or of the runs with these names, whenever there is something new."""
        if len(names) > _MOST_AT_ONCE:
            raise ConfigError(f"{len(names)} runs are too many at once. Allowed: {_MOST_AT_ONCE}.")
        views = [self.server.runs.view(name) for name in names]
        if not self.server.streams.acquire(blocking=False):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"{_MOST_STREAMS} pages are open already: close some.")
        try:
            self.close_connection = True
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream")
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(CursusError):  # such as a folder that is no longer there: whoever asks again is told
                self._tell_all(views or [self.server.runs])
        finally:
            self.server.streams.release()

    def _tell_all(self, views: Sequence[RunView | RunViews]) -> None:
        said, said_at = [b""] * len(views), 0.0
        while not self.server.stopping.is_set():
            found = [view.data() for view in views]
            news = b"".join(b"data: " + each + b"\n\n" for each, before in zip(found, said, strict=True) if each != before)
            now = time.monotonic()
            if news or now - said_at > _ALIVE_S:
                self.wfile.write(news or b": still here\n\n")
                self.wfile.flush()
                said, said_at = found, now
            self.server.stopping.wait(_READING_S if any(view.is_reading for view in views) else _LOOK_S)


def _named(host: str) -> str:
    """How a browser reaches what listens at `host`."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 – any address of this machine
        return socket.gethostname()
    return _LOOPBACK.get(host, f"[{host}]" if ":" in host else host)


def _first(query: Mapping[str, list[str]], name: str) -> str:
    if name not in query:
        raise ConfigError(f"{name}=… is missing.")
    return query[name][0]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{text!r:.40} is not a number.") from None
