"""The guard: who may ask, how many at a time, and that no error leaves the service as it was raised."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from time import perf_counter

from anyio import fail_after
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atlas_splines.serve.metrics import Metrics
from atlas_splines.serve.requests import Limits, Problem, problem_of

__all__ = ["Access", "Guard", "is_loopback"]

LOG = logging.getLogger("atlas_splines.serve")

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.\-_]+)(:\d{1,5})?")

# What changes the model, and needs the token wherever the service listens.
WRITES = frozenset({"/learn", "/revert", "/forget", "/outcomes"})

# What needs no token anywhere: balancers ask the first two, and the page holds nothing of the model.
OPEN = frozenset({"/health", "/ready", "/", "/page.js", "/page.css"})

LARGE_ANSWER = 64 * 2**10  # bytes, from which on a client that does not read is waited for in vain


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes
    ----------
    token
        What has to be sent as ``Authorization: Bearer …``, or None.
    everywhere
        Whether predictions need it too, as they do unless the service listens to this machine alone.
    hosts
        Names, in small letters, by which the service may be asked, besides addresses and those of the
        loopback.
    """

    token: str | None = None
    everywhere: bool = False
    hosts: Collection[str] = ()

    def check(self, scope: Scope) -> None:
        """Refuse a request that must not be answered."""
        headers = {name: value.decode("latin1") for name, value in scope["headers"] if name in _CHECKED}
        host = headers.get(b"host", "")
        if not self._is_own(host):
            raise Problem(403, "this name is not one of the service's; start it with --allow-host NAME")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise Problem(403, "a page of another site asks; only the service's own page may")
        path = scope["path"]
        writes = "/" + path.split("/")[1] in WRITES
        if self.token is None or path in OPEN or not (writes or self.everywhere):
            return
        given = headers.get(b"authorization", "")
        if not hmac.compare_digest(given.encode("latin1"), f"Bearer {self.token}".encode("latin1")):
            challenge = {"WWW-Authenticate": "Bearer"}
            raise Problem(401, "the token is missing or wrong; send Authorization: Bearer TOKEN", challenge)

    def _is_own(self, host: str) -> bool:
        """Whether a Host header names this service: a page that has led its name here is refused.

        An address is nobody's name, so no page can have led it anywhere.
        """
        found = HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").lower()
        if name in LOOPBACK_NAMES or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


_CHECKED = frozenset({b"host", b"origin", b"authorization"})


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """What stands before the routes of a service.

    Parameters
    ----------
    app
        The routes.
    access
        Who may ask.
    limits
        How many requests are answered at a time.
    metrics
        Where requests are counted.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._app, self._access, self._limits, self._metrics = app, access, limits, metrics
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = perf_counter(), 500
        self._running += 1

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SAFE_HEADERS]
                await send(message)
            elif len(message.get("body", b"")) > LARGE_ANSWER:
                with fail_after(self._limits.seconds):
                    await send(message)
            else:
                await send(message)

        try:
            if self._running > self._limits.requests:
                raise Problem(503, "too many requests at a time", {"Retry-After": "1"})
            self._access.check(scope)
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            status = 499
        except TimeoutError:
            status = 499
            LOG.warning("%s was not read in time", scope["path"])
        except Exception as error:  # whatever it is, it must not leave as it was raised
            await self._answer(error)(scope, receive, noting)
        finally:
            self._running -= 1
            route = scope.get("route_name", "other")
            self._metrics.answered(route, status, perf_counter() - start)

    def _answer(self, error: Exception) -> ASGIApp:
        """What a client is told of an error."""
        known = problem_of(error)
        if known is None:
            self._metrics.failures.inc()
            LOG.error("a request failed", exc_info=error)
            known = Problem(500, "the service failed to answer; its log tells more")
        return known.response()


SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)
