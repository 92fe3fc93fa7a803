"""`atlas play`: the playground, served to this machine only."""

from __future__ import annotations

import contextlib
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

from atlas_splines.cli.messages import Say
from atlas_splines.cli.output import Facts
from atlas_splines.play.bundle import PAGE

__all__ = ["PlayServer", "play"]

LOOPBACK = "127.0.0.1"


class PlayServer(ThreadingHTTPServer):
    """Serves the page, and a model file if there is one, on the loopback only.

    Parameters
    ----------
    port
        Where to listen; 0 takes a port that is free.
    model
        A model file that the page opens.
    """

    daemon_threads = True

    def __init__(self, port: int = 0, model: Path | None = None) -> None:
        self.model = model
        try:
            super().__init__((LOOPBACK, port), Answer)
        except OSError as error:
            reason = f"port {port} cannot be used: {error.strerror}"
            raise OSError(f"{reason}; choose another with --port") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        opened = f"#tab=file&model={quote(self.model.name)}" if self.model is not None else ""
        return f"http://{LOOPBACK}:{self.server_port}/{opened}"


class Answer(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PlayServer

    def do_GET(self) -> None:
        """Send the page or the model, to whoever asks this very machine for it."""
        if self.headers.get("Host") not in self.own_names():  # a foreign page that was led to the loopback
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        path = urlsplit(self.path).path
        if path == "/":
            self.send_file(PAGE, "text/html; charset=utf-8")
        elif path == "/model" and self.server.model is not None:
            self.send_file(self.server.model, "application/octet-stream")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET  # the same answer, of which `send_file` leaves out the content

    def own_names(self) -> list[str]:
        """Names under which a browser of this machine asks."""
        return [f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")]

    def send_file(self, path: Path, kind: str) -> None:
        """Send a file as it is now."""
        try:
            content = path.read_bytes()
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line."""


def play(port: int, model: Path | None, *, browser: bool, say: Say, tell: Callable[[Facts], None]) -> None:
    """Serve the playground until Ctrl-C.

    Parameters
    ----------
    port
        Where to listen; 0 takes a port that is free.
    model
        A model file that the page opens.
    browser
        Whether to open a browser.
    say
        Prints a line.
    tell
        Gives the address as JSON.
    """
    if model is not None and not model.is_file():
        raise FileNotFoundError(f"there is no file {model}; check the name")
    with PlayServer(port, model) as server, contextlib.suppress(KeyboardInterrupt):
        say(f"The playground is at {server.address}")
        say(f"Without a server: open {PAGE} in a browser. Ctrl-C ends.")
        tell({"address": server.address})
        if browser:
            webbrowser.open(server.address)
        server.serve_forever()
