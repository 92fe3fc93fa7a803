"""Requests: what may be asked, within which limits, and how a refusal is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from anyio import fail_after
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from atlas_splines.files.writer import LockedError, StorageError
from atlas_splines.serve.contract import ContractBroken
from atlas_splines.serve.snapshot import Task
from atlas_splines.serve.store import KeyReused
from atlas_splines.tables.bodies import BodyLimits, BodyRefused, BodyTooLarge
from atlas_splines.tables.wording import visible
from atlas_splines.updates.refusal import UpdateRefused

__all__ = [
    *("ARROW", "CSV", "JSON", "Bodies", "Limits", "Problem"),
    *("answered", "flag", "json_of", "key_of", "kind_of", "problem_of", "rows_of", "task_of", "wanted_kind"),
]

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
KINDS = (JSON, CSV, ARROW)
KEY = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True)
class Limits:
    """What a service takes, at most; what is more is answered by 413, 429 or 503 before it costs much.

    Attributes
    ----------
    body
        Bytes of a body. 100,000 rows of 20 columns are about 20 MB of CSV.
    bodies
        Bytes of all bodies that are held at a time.
    table
        The table that a body may stand for.
    requests
        Requests that are answered at a time.
    connections
        Connections that are open at a time.
    writes
        Changes of the model that wait for their turn.
    seconds
        That a client may take to send a request or to read an answer; and that an answer may be waited for
        while rows are learned.
    head_seconds
        That a client may take to send the head of a request, or stay silent between two.
    small_rows
        Rows that are predicted at once; more are left to another thread, so that they hold nobody up. One
        costs about 0.2 ms and 100 about 1 ms (`benchmarks/serve.py`).
    readers
        Such threads.
    explained
        Rows that are explained at a time, not benchmarked. They have a thread of their own, for which
        predictions do not wait: the first row of a version computes means over the background.
    """

    body: int = 32 * 2**20
    bodies: int = 128 * 2**20
    table: BodyLimits = BodyLimits()  # noqa: RUF009
    requests: int = 64
    connections: int = 256
    writes: int = 16
    seconds: float = 30.0
    head_seconds: float = 10.0
    small_rows: int = 100
    readers: int = 2
    explained: int = 100


class Problem(Exception):
    """A request that is not answered as it was meant to be.

    Parameters
    ----------
    status
        Code of HTTP.
    sentence
        What is wrong, and what to do.
    headers
        Of the answer.
    """

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})

    def response(self) -> Response:
        """The answer."""
        return answered({"error": visible(self.sentence)}, self.status, self.headers)


def answered(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer of JSON; what is no number becomes null."""
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(content), allow_nan=False)
    return Response(text, status, dict(headers or {}), JSON)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and value - value != 0 else value


def problem_of(error: Exception) -> Problem | None:
    """How an error that a client can do something about is answered; None for any other."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, UpdateRefused):
        return Problem(409, f"{error.what}; nothing was learned: correct the rows, or send accept=1")
    if isinstance(error, ContractBroken):
        return Problem(409, str(error))
    if isinstance(error, KeyReused):
        return Problem(422, str(error))
    if isinstance(error, BodyTooLarge):
        return Problem(413, str(error))
    if isinstance(error, BodyRefused):
        return Problem(400, str(error))
    if isinstance(error, LockedError):
        return Problem(503, str(error), {"Retry-After": "5"})
    if isinstance(error, StorageError):
        return Problem(507, str(error))
    if isinstance(error, ValueError | OverflowError):
        return Problem(422, " ".join(str(error).split()))
    return None


# --- bodies -----------------------------------------------------------------------------------------------


def kind_of(request: Request) -> str:
    """The media type of a body."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Problem(415, "the body is compressed; send it as it is")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise Problem(415, f"send one of {', '.join(KINDS)} as Content-Type")
    return kind


def wanted_kind(request: Request) -> str:
    """The media type of the answer: JSON, unless one of the others is asked for."""
    wanted = request.headers.get("accept", "")
    if wanted in ("", "*/*", JSON):
        return JSON
    kinds = [part.partition(";")[0].strip().lower() for part in wanted.split(",")]
    for kind in kinds:
        if kind in KINDS:
            return kind
    if {*kinds} & {"*/*", "application/*"}:
        return JSON
    raise Problem(406, f"answers are one of {', '.join(KINDS)}; ask for one of these by Accept")


class Bodies:
    """Bytes of bodies that are held at a time.

    Parameters
    ----------
    limits
        Of the service.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held = limits, 0

    async def read(self, request: Request) -> bytes:
        """The body of a request; it counts until `release`."""
        predicted = request.headers.get("content-length", "")
        if predicted.isdigit() and int(predicted[:18]) > self._limits.body:
            self._refuse_size()
        parts: list[bytes] = []
        size = 0
        try:
            with fail_after(self._limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    self._held += len(part)
                    parts.append(part)
                    if size > self._limits.body:
                        self._refuse_size()
                    if self._held > self._limits.bodies:
                        raise Problem(503, "too many bytes are being received", {"Retry-After": "1"})
        except TimeoutError:
            self._held -= size
            raise Problem(408, f"the body took longer than {self._limits.seconds:g} seconds") from None
        except (Problem, ClientDisconnect):
            self._held -= size
            raise
        return b"".join(parts)

    def release(self, body: bytes) -> None:
        """A body that is no longer needed."""
        self._held -= len(body)

    def _refuse_size(self) -> NoReturn:
        raise Problem(413, f"the body has more than {self._limits.body:,} bytes; send fewer rows at a time")


def json_of(body: bytes) -> dict[str, Any]:
    """A JSON object; NaN and Infinity are no JSON."""
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(400, 'the body must be a JSON object, such as {"rows": [{"size": 30}]}')
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; send null for a missing value")


def rows_of(content: Mapping[str, Any], limits: BodyLimits) -> list[dict[str, Any]]:
    """The rows of a JSON object."""
    rows = content.get("rows")
    if not isinstance(rows, list) or not all(type(row) is dict for row in rows):
        raise Problem(422, '"rows" must be a list of objects, such as [{"size": 30, "city": "Cadiz"}]')
    if not rows:
        raise Problem(422, '"rows" is empty; send some')
    limits.check(len(rows), 1)
    return rows


# --- options ----------------------------------------------------------------------------------------------


def flag(request: Request, name: str) -> bool:
    """Whether an option of a query is set."""
    value = request.query_params.get(name, "0")
    if value not in ("0", "1", "false", "true"):
        raise Problem(422, f"{name} must be 0 or 1, not {value!r}")
    return value in ("1", "true")


def task_of(request: Request) -> Task:
    """What a query asks of rows."""
    if not request.url.query:
        return Task()
    coverages = []
    for text in request.query_params.getlist("interval"):
        try:
            coverages.append(float(text))
        except ValueError:
            raise Problem(422, f"interval must be a share of rows such as 0.9, not {text!r}") from None
    if len(coverages) > 10:
        raise Problem(422, "interval is given more than ten times; ask for fewer at a time")
    return Task(
        coverages=tuple(coverages),
        support=flag(request, "support"),
        probabilities=flag(request, "probabilities"),
        explain=flag(request, "explain"),
    )


def key_of(request: Request) -> str:
    """The idempotency key of a request; empty if it has none."""
    key = request.headers.get("idempotency-key", "")
    if key and not KEY.fullmatch(key):
        raise Problem(422, "Idempotency-Key must be 1 to 200 visible characters of ASCII")
    return key
