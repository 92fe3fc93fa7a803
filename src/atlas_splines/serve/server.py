"""The server: an address, the process that answers there, and its end."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from atlas_splines.serve.app import Application
from atlas_splines.serve.guard import Access, Guard, is_loopback
from atlas_splines.serve.requests import Limits

__all__ = ["bound", "run", "token_in"]

LEAST_TOKEN = 16  # characters

# Seconds that requests may go on after the process was told to end.
GRACE = 60


def token_in(path: Path) -> str:
    """The token in a file, which only its owner should be able to read."""
    try:
        text = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; check the name") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} holds more than ASCII; write a token of letters and digits") from None
    if len(text) < LEAST_TOKEN or len(text.split()) != 1:
        raise ValueError(
            f"{path} must hold one word of {LEAST_TOKEN} characters or more; make one with: openssl rand "
            f"-hex 32 > {path}"
        )
    if stat.S_IMODE(mode) & 0o007 and sys.platform != "win32":
        raise ValueError(f"{path} can be read by everybody; run: chmod 600 {path}")
    return text


def bound(host: str, port: int, access: Access) -> socket.socket:
    """A socket that listens; any address but the loopback needs a token."""
    if access.token is None and not is_loopback(host):
        raise ValueError(f"{host} can be reached from elsewhere, which needs --token-file")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise OSError(f"{host}:{port} cannot be used: {error.strerror}; choose another --port") from None


def run(app: Application, listening: socket.socket, access: Access, limits: Limits) -> None:
    """Answer until the process is told to end; what was accepted is finished first."""
    logging.getLogger("atlas_splines.serve").setLevel(logging.INFO)
    config = uvicorn.Config(
        Guard(app, access, limits, app.metrics),
        http=_protocol(limits),
        loop="asyncio",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=16 * 2**10,
        backlog=512,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of uvicorn, in which a client that sends or reads too slowly is cut off."""

    class BoundedProtocol(H11Protocol):
        """HTTP/1.1 whose heads have to come in time."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            own = transport.get_extra_info("socket")
            if own is not None:  # or else head and body of an answer wait 40 ms for each other
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            super().connection_made(transport)
            self._expect()

        def _expect(self) -> None:
            """Cut the connection unless a whole head comes in time."""
            self._forget()
            self._waiting = self.loop.call_later(limits.head_seconds, self._cut)

        def _forget(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _cut(self) -> None:
            if not self.transport.is_closing():
                self.transport.abort()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self._waiting is None and (before is None or before.response_complete):
                self._expect()  # the first bytes of the next head
            super().data_received(data)
            if self.cycle is not before and self.cycle is not None:
                self._forget()  # the head is whole; the body has its own time

        def timeout_keep_alive_handler(self) -> None:
            if not self.transport.is_closing() and self.transport.get_write_buffer_size():
                self.transport.abort()  # what was answered is not read
            super().timeout_keep_alive_handler()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

    return BoundedProtocol
