"""A server for the page of a mission that still flies. It accepts connections from this machine only.

The server keeps all updates, so a page that is opened late or loaded again gets the whole mission. Each page has its
own thread: a slow page delays neither the mission nor another page.
"""

import hashlib
import secrets
import select
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from decmarvel.recording.format import Recording
from decmarvel.recording.knowledge import HistoryBuilder, KnowledgeHistory
from decmarvel.recording.recorder import Recorder
from decmarvel.show.html import pack, page_text, page_update
from decmarvel.simulation.types import State

_HOST = "127.0.0.1"
_EVENTS = "events"
_CHECK_EVERY_S = 1.0
"""A thread without an update to send checks this often whether its page is still connected."""
_TIMEOUT_S = 60
"""A page that reads nothing for this time is disconnected. It may connect again, and goes on where it was."""
_REFUSE_ALL = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Live:
    """One mission and the pages that show it. Everyone who knows the address can read; nobody can write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._page = b""
        self._events: list[bytes] = []
        self._over = False
        self._builder: HistoryBuilder
        self.listening = 0
        """Number of connected pages that do not have the whole mission yet."""
        self.served = 0
        """Number of pages that got the whole mission."""
        self.policy = _REFUSE_ALL
        self.path = f"/{secrets.token_urlsafe(32)}/"
        self._server = _Server((_HOST, 0), partial(_Handler, self))
        self.hosts = {f"{name}:{self._server.server_port}" for name in (_HOST, "localhost")}
        self.address = f"http://{_HOST}:{self._server.server_port}{self.path}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    # Called by the mission; nothing here waits for a page.

    def show(self, recorder: Recorder, state: State) -> None:
        """Send the newest moment. The page itself has the first one, the take-off."""
        robots, moment = state.robots, len(recorder.moments) - 1
        if moment == 0:
            (team, size, _), sites = robots.belief.shape, robots.visits.shape[-1]
            self._builder = HistoryBuilder(team, size, sites)
        self._builder.add(robots.belief, robots.graph, robots.site)
        history = self._builder.history(recorder.recording(complete=False, first=moment), moment, heard=True)
        if moment == 0:
            self._begin(page_text([history], updates=_EVENTS))
        else:
            self._add("message", page_update(history))

    def end(self, recording: Recording) -> KnowledgeHistory:
        """Tell the pages that the mission is over. Returns the whole history, as the pages have it."""
        facts = {"complete": recording.complete, "metres_to_99": recording.metres_to_99}
        self._add("over", pack(facts, {}))
        return self._builder.history(recording, heard=True)

    def _begin(self, page: str) -> None:
        script = page.rpartition("<script>")[2].partition("</script>")[0]
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        own = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"
        with self._changed:
            self.policy = f"{_REFUSE_ALL}; {own}"
            self._page = page.encode()
            self._changed.notify_all()

    def _add(self, kind: str, text: str) -> None:
        with self._changed:
            self._events.append(f"id: {len(self._events) + 1}\nevent: {kind}\ndata: {text}\n\n".encode())
            self._over = kind == "over"
            self._changed.notify_all()

    # Called after the mission.

    def wait(self, patience_s: float) -> bool:
        """Wait until one page, and every connected page, has the whole mission. Without a page, wait `patience_s`."""
        with self._changed:
            while self.listening or not self.served:
                if not self._changed.wait(None if self.listening else patience_s):
                    return False
        return True

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # Called by the threads of the pages.

    def page(self) -> bytes:
        """The page. Waits for the take-off, since the mission may still be compiling."""
        with self._changed:
            self._changed.wait_for(lambda: self._page)
            return self._page

    def events(self, last: int) -> Iterator[bytes]:
        """Yield the events after number `last` until the mission is over; b"" if there is none for `_CHECK_EVERY_S`."""
        over = False
        while not over:
            with self._changed:
                if len(self._events) <= last and not self._over:
                    self._changed.wait(_CHECK_EVERY_S)
                new, over = self._events[last:], self._over
            last += len(new)
            yield b"".join(new)

    @contextmanager
    def listener(self) -> Iterator[None]:
        """Count one page as listening, and as served if the body ends without an error."""
        self._count(listening=1)
        try:
            yield
            self._count(served=1)
        finally:
            self._count(listening=-1)

    def _count(self, listening: int = 0, served: int = 0) -> None:
        with self._changed:
            self.listening += listening
            self.served += served
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors, but not those of connections that a browser has closed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the page and its events; refuses everything else."""

    timeout = _TIMEOUT_S
    server_version = "decmarvel"
    sys_version = ""

    def __init__(self, live: Live, *connection: Any) -> None:
        self._live = live
        super().__init__(*connection)  # the base class answers the request here

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self._live.hosts:  # another site's name leads to this machine
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == self._live.path:
            self._send_page()
        elif self.path == self._live.path + _EVENTS:
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET  # noqa: N815

    def _send_page(self) -> None:
        page = self._live.page()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page)

    def _send_events(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if self.command == "GET":
            last = self.headers.get("Last-Event-ID", "")
            with self._live.listener():
                for text in self._live.events(int(last) if last.isdecimal() else 0):
                    if select.select([self.connection], [], [], 0)[0]:
                        raise ConnectionAbortedError("the page has closed the connection: it sends nothing else")
                    self.wfile.write(text)
                self.rfile.read(1)  # wait until the page has read the end: it then closes the connection

    def end_headers(self) -> None:
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", self._live.policy),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: the terminal shows the mission."""
