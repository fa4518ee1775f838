"""A mission to watch while it flies: a small server for this machine alone, which tells its page every new moment.

All that was told is kept, so that a page which comes late or is loaded again gets everything. Every page has a thread
of its own: a slow one makes nobody wait but itself.
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
from decmarvel.recording.knowledge import Story, Telling
from decmarvel.recording.recorder import Recorder
from decmarvel.show.html import compose, news, pack
from decmarvel.simulation.types import State

HERE = "127.0.0.1"
EVENTS = "events"
LOOK_EVERY_S = 1.0
"""How often a thread without news looks whether its page is still there."""
STUCK_S = 60
"""A page that takes nothing for so long is given up. It may come back, and go on where it was."""
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Live:
    """One mission and the pages that show it. Whoever knows the address can read, and nobody can write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._page = b""
        self._events: list[bytes] = []
        self._over = False
        self._telling: Telling
        self.listening = 0
        """Pages that are waiting for more."""
        self.served = 0
        """Pages that have got everything."""
        self.policy = NOTHING
        self.path = f"/{secrets.token_urlsafe(32)}/"
        self._server = _Server((HERE, 0), partial(_Handler, self))
        self.hosts = {f"{name}:{self._server.server_port}" for name in (HERE, "localhost")}
        self.address = f"http://{HERE}:{self._server.server_port}{self.path}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    # For the mission: nothing here waits for a page.

    def show(self, recorder: Recorder, state: State) -> None:
        """The newest moment. The first is the take-off, with which the page begins."""
        robots, moment = state.robots, len(recorder.moments) - 1
        if moment == 0:
            (team, size, _), sites = robots.belief.shape, robots.visits.shape[-1]
            self._telling = Telling(team, size, sites)
        self._telling.add(robots.belief, robots.graph, robots.site)
        story = self._telling.story(recorder.recording(complete=False, first=moment), moment, heard=True)
        if moment == 0:
            self._begin(compose([story], more=EVENTS))
        else:
            self._add("message", news(story))

    def end(self, recording: Recording) -> Story:
        """The mission is over. Returns all that the pages were told."""
        facts = {"complete": recording.complete, "metres_to_99": recording.metres_to_99}
        self._add("over", pack(facts, {}))
        return self._telling.story(recording, heard=True)

    def _begin(self, page: str) -> None:
        script = page.rpartition("<script>")[2].partition("</script>")[0]
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        own = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'"
        with self._changed:
            self.policy = f"{NOTHING}; {own}"
            self._page = page.encode()
            self._changed.notify_all()

    def _add(self, kind: str, text: str) -> None:
        with self._changed:
            self._events.append(f"id: {len(self._events) + 1}\nevent: {kind}\ndata: {text}\n\n".encode())
            self._over = kind == "over"
            self._changed.notify_all()

    # After the mission.

    def wait(self, patience_s: float) -> bool:
        """Until a page has got everything, and none is left that has not; if there is none, only for so long."""
        with self._changed:
            while self.listening or not self.served:
                if not self._changed.wait(None if self.listening else patience_s):
                    return False
        return True

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # For the threads of the pages.

    def page(self) -> bytes:
        """Once there is one: the mission may still have to be compiled."""
        with self._changed:
            self._changed.wait_for(lambda: self._page)
            return self._page

    def events(self, last: int) -> Iterator[bytes]:
        """Those after the one with the number `last`, as they come, until the mission is over; nothing now and then."""
        over = False
        while not over:
            with self._changed:
                if len(self._events) <= last and not self._over:
                    self._changed.wait(LOOK_EVERY_S)
                fresh, over = self._events[last:], self._over
            last += len(fresh)
            yield b"".join(fresh)

    @contextmanager
    def listener(self) -> Iterator[None]:
        """One page that listens. If it leaves without an error, it has got everything."""
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
        """Browsers come and go as they like."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for two addresses; anything else is refused."""

    timeout = STUCK_S
    server_version = "decmarvel"
    sys_version = ""

    def __init__(self, live: Live, *connection: Any) -> None:
        self._live = live
        super().__init__(*connection)  # which answers the request

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self._live.hosts:  # another site's name that was made to lead here
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == self._live.path:
            self._send_page()
        elif self.path == self._live.path + EVENTS:
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
                        raise ConnectionAbortedError("the page is gone: it has nothing to say but goodbye")
                    self.wfile.write(text)
                self.rfile.read(1)  # a page that has got the end hangs up

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
        """The terminal belongs to the mission."""
