"""The application: what each path answers."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from atlas_splines.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from atlas_splines.serve.openapi import description
from atlas_splines.serve.page import ASSETS, POLICY, changed_by, life, tried, why
from atlas_splines.serve.pending import Waiting
from atlas_splines.serve.requests import (
    ARROW,
    CSV,
    JSON,
    Bodies,
    Limits,
    Problem,
    answered,
    flag,
    json_of,
    key_of,
    kind_of,
    rows_of,
    task_of,
    wanted_kind,
)
from atlas_splines.serve.snapshot import COVERAGE, Answer, Learned, Notes, Snapshot, Table, Task
from atlas_splines.serve.store import Change, Reply, Store
from atlas_splines.tables import bodies

__all__ = ["Application"]

LOG = logging.getLogger("atlas_splines.serve")
Handler = Callable[[Request], Awaitable[Response]]
Result = TypeVar("Result")

# Seconds between two looks at the model's file, which another process may have replaced.
WATCH = 0.5

# Paths behind which the number of an update stands.
NUMBERED = ("/revert", "/undo")

# Versions without an update that are kept for the page.
OTHERS = 2

# Bytes that a row of JSON has at least, for a guess at how many there are.
ROW_BYTES = 50

# Rows that "lately" is in figures of coverage.
LATELY = 2000


class Application:
    """The service of one model.

    Parameters
    ----------
    store
        The model's file and its version.
    limits
        What the service takes, at most.
    """

    def __init__(self, store: Store, limits: Limits = Limits()) -> None:  # noqa: B008
        self.store, self.limits, self.metrics = store, limits, Metrics()
        self.is_ready = True
        self._bodies = Bodies(limits)
        self._writer = ThreadPoolExecutor(1, "writer")
        self._readers = ThreadPoolExecutor(limits.readers, "reader")
        self._explainer = ThreadPoolExecutor(1, "explainer")
        self._writes = self._reads = self._explaining = 0
        self._covered: deque[tuple[int, float]] = deque(maxlen=50)
        self._errors: deque[tuple[int, float]] = deque(maxlen=10)
        self._others: dict[tuple[str, int], Snapshot] = {}
        self._started = time.time()
        self._watching: asyncio.Task[None] | None = None
        self._routes: Mapping[str, Mapping[str, Handler]] = {
            "/predict": {"POST": self.predict},
            "/learn": {"POST": self.learn},
            "/outcomes": {"POST": self.outcomes},
            "/revert": {"POST": self.revert},
            "/forget": {"POST": self.forget},
            "/log": {"GET": self.log},
            "/model": {"GET": self.model},
            "/health": {"GET": self.health},
            "/ready": {"GET": self.ready},
            "/metrics": {"GET": self.measured},
            "/openapi.json": {"GET": self.openapi},
            "/life": {"GET": self.life},
            "/try": {"POST": self.tried},
            "/why": {"POST": self.why},
            "/undo": {"GET": self.undo},
            **{path: {"GET": partial(self.asset, path)} for path in ASSETS},
        }
        self.metrics.serves(store.snapshot.version)

    # --- the protocol -----------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end with the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise Problem(404, "there is no such path; /openapi.json lists those that there are")
        path: str = scope["path"]
        base = next((each for each in NUMBERED if path.startswith(each + "/")), path)
        handlers = self._routes.get(base)
        if handlers is None:
            raise Problem(404, "there is no such path; /openapi.json lists those that there are")
        scope["route_name"] = base
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        handler = handlers.get(method)
        if handler is None:
            allowed = ", ".join(handlers)
            raise Problem(405, f"{base} takes {allowed}", {"Allow": allowed})
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Watch the file until the server ends; changes that were accepted are finished first."""
        await receive()
        self._watching = asyncio.create_task(self._watch())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.is_ready = False
        self._watching.cancel()
        await asyncio.get_running_loop().run_in_executor(None, partial(self._writer.shutdown, wait=True))
        for pool in (self._readers, self._explainer):
            pool.shutdown(wait=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _watch(self) -> None:
        """Load the file whenever another process has replaced it."""
        told = ""
        while True:
            await asyncio.sleep(WATCH)
            if self._writes:  # which looks by itself
                continue
            loop = asyncio.get_running_loop()
            if await loop.run_in_executor(self._writer, self.store.refresh):
                self.metrics.serves(self.store.snapshot.version)
                LOG.info("version %s was loaded", self.store.snapshot.version[:12])
            if self.store.problem != told:
                told = self.store.problem
                if told:
                    LOG.error("the version before goes on to answer: %s", told)

    async def _read(self, rows: int, work: Callable[[], Result]) -> Result:
        """Do what needs no writing: at once, or on another thread if it is much."""
        if rows <= self.limits.small_rows:
            return work()
        if self._reads >= 8 * self.limits.readers:
            raise Problem(503, "too many large requests at a time", {"Retry-After": "1"})
        self._reads += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work)
        finally:
            self._reads -= 1

    async def _explain(self, work: Callable[[], Result]) -> Result:
        """Explain rows on a thread of its own, one request after the other: large predictions go past."""
        if self._explaining >= 8:
            raise Problem(503, "too many explanations at a time", {"Retry-After": "2"})
        self._explaining += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._explainer, work)
        finally:
            self._explaining -= 1

    async def _write(self, key: str, request: bytes, make: Callable[[Snapshot], Change]) -> Reply:
        """Change the model when it is this request's turn; answer once the change is on the disk."""
        if self.store.read_only:
            raise Problem(403, "this service only follows the file; ask the one that learns")
        if self._writes >= self.limits.writes:
            raise Problem(429, "too many changes wait already", {"Retry-After": "2"})
        self._writes += 1
        loop = asyncio.get_running_loop()
        change = loop.run_in_executor(self._writer, self.store.change, key, request, make)
        change.add_done_callback(self._written)
        done, _ = await asyncio.wait({change}, timeout=self.limits.seconds)
        if not done:
            raise Problem(
                503,
                "the rows are still being learned; ask again with the same Idempotency-Key",
                {"Retry-After": "5"},
            )
        return change.result()

    def _written(self, change: asyncio.Future[Reply]) -> None:
        """Count a change that is done, whoever still waits for it."""
        self._writes -= 1
        self.metrics.serves(self.store.snapshot.version)
        if not change.cancelled() and change.exception() is None:
            self._count(change.result())

    def _count(self, reply: Reply) -> None:
        if reply.get("repeated") or "kind" not in reply:
            return
        self.metrics.updates.labels(reply["kind"]).inc()
        rows, coverage, error = reply.get("rows", 0), reply.get("coverage"), reply.get("error_before")
        if reply["kind"] in ("revert", "forget"):
            return
        self.metrics.learned.inc(rows)
        if error is not None:
            self.metrics.error_ahead.labels(reply["measure"]).set(error)
            self._errors.append((rows, error))
            self.metrics.baseline.set(_weighted(self._errors))
        if coverage is not None:
            self._covered.append((rows, coverage))
            while len(self._covered) > 1 and sum(n for n, _ in self._covered) > LATELY:
                self._covered.popleft()
            self.metrics.coverage.set(_weighted(self._covered))

    # --- predictions ------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Predict rows, from one version, whose hash is in the answer."""
        kind, wanted, task = kind_of(request), wanted_kind(request), task_of(request)
        snapshot = self.store.snapshot
        keeps = flag(request, "keep")
        body = await self._bodies.read(request)
        try:
            plain = kind == wanted == JSON and not task.explain
            rows = len(body) // ROW_BYTES if plain else self.limits.small_rows + 1
            make = partial(self._predicted, snapshot, body, kind, wanted, task, keeps)
            return await (self._explain(make) if task.explain else self._read(rows, make))
        finally:
            self._bodies.release(body)

    def _predicted(
        self, snapshot: Snapshot, body: bytes, kind: str, wanted: str, task: Task, keeps: bool
    ) -> Response:
        """The answer to a request for predictions."""
        table, content, names = None, {}, None
        if kind == JSON:
            content = json_of(body)
            rows = rows_of(content, self.limits.table)
            names = content.get("ids")
            encoded, notes = snapshot.encode_rows(rows)
            if wanted != JSON:
                table = bodies.of_rows(rows, snapshot.encoding.names)
        else:
            table = self._table(snapshot, body, kind)
            encoded, notes = snapshot.encode(table)
            if not table.num_rows:
                raise Problem(422, "the body has no rows; send some")
        if task.explain and len(encoded.values) > self.limits.explained:
            raise Problem(413, f"explain=1 is for {self.limits.explained} rows at a time; send fewer")
        keeps = keeps or names is not None
        if keeps and COVERAGE not in task.coverages:
            task = Task((*task.coverages, COVERAGE), task.support, task.probabilities, task.explain)
        try:
            answer = snapshot.answer(encoded, task)
        except ValueError:
            if not keeps:
                raise
            answer = snapshot.answer(encoded, Task(task.coverages[:-1], *list(vars(task).values())[1:]))
        self.metrics.predicted.inc(len(answer.predictions))
        extra: dict[str, Any] = {}
        if keeps:
            if kind != JSON:
                raise Problem(422, "predictions are kept by ids of JSON rows; send JSON")
            extra["ids"] = self._keep(snapshot, rows, names, answer)
        if wanted == JSON:
            return answered(_plain(snapshot, answer, notes) | extra, headers=_of(snapshot))
        columns = snapshot.columns(answer, task)
        written = bodies.with_columns(table, columns)
        content_of = bodies.to_csv if wanted == CSV else bodies.to_arrow
        return Response(content_of(written), headers=_of(snapshot), media_type=wanted)

    def _table(self, snapshot: Snapshot, body: bytes, kind: str) -> Table:
        """A body as a table."""
        if kind == CSV:
            return bodies.of_csv(body, snapshot.encoding.dialect, self.limits.table)
        if kind == ARROW:
            return bodies.of_arrow(body, self.limits.table)
        return bodies.of_rows(rows_of(json_of(body), self.limits.table), snapshot.encoding.names)

    def _keep(self, snapshot: Snapshot, rows: list[dict[str, Any]], names: Any, answer: Answer) -> list[str]:
        """Let answered rows wait for their targets."""
        pending = self.store.pending
        if pending is None:
            raise Problem(422, "predictions are not kept; start the service with --pending N")
        if names is None:
            names = [uuid.uuid4().hex for _ in rows]
        texts = isinstance(names, list) and all(type(each) is str and 0 < len(each) <= 200 for each in names)
        if not texts or len({*names}) != len(rows):
            raise Problem(422, '"ids" must be a list of different texts of 1 to 200 characters, one a row')
        regions = answer.intervals.get(COVERAGE)
        predictions = answer.predictions.tolist()
        waiting = [
            Waiting(
                name,
                row,
                predictions[k],
                None if regions is None else snapshot.region(regions[k]),
                snapshot.version,
            )
            for k, (name, row) in enumerate(zip(names, rows, strict=True))
        ]
        known = pending.find(names)
        for each in waiting:
            if each.id in known and known[each.id].row != each.row:
                raise Problem(422, f"{each.id!r} waits for its target already, for another row; use another")
        try:
            pending.keep(waiting)
        except OSError as error:
            raise Problem(507, f"the predictions could not be kept: {error.strerror}; make room") from error
        self.metrics.pending.set(len(pending))
        return list(names)

    # --- changes ----------------------------------------------------------------------------------------

    async def learn(self, request: Request) -> Response:
        """Learn rows with their targets; the answer comes once the model's file holds them."""
        kind, key, dry = kind_of(request), key_of(request), flag(request, "dry_run")
        options = _learning(request)
        body = await self._bodies.read(request)
        try:
            make = partial(self._learned, body=body, kind=kind, options=options)
            if dry:
                tried = partial(self._tried, self.store.snapshot, body, kind, options)
                return answered(await self._read(self.limits.small_rows + 1, tried))
            predicted = f"learn\n{sorted(options.items())}\n{kind}\n".encode() + body
            return answered(await self._write(key, predicted, make))
        finally:
            self._bodies.release(body)

    def _learned(self, snapshot: Snapshot, *, body: bytes, kind: str, options: dict[str, Any]) -> Change:
        learned = snapshot.learn(self._table(snapshot, body, kind), **options)
        return Change(learned.snapshot, _told(snapshot, learned), is_update=True)

    def _tried(self, snapshot: Snapshot, body: bytes, kind: str, options: dict[str, Any]) -> Reply:
        """What an update would do: it is made, told of, and dropped."""
        table = self._table(snapshot, body, kind)
        learned = snapshot.learn(table, **options)
        told = _told(snapshot, learned)
        entry = learned.entry or {}
        would = {"would_learn": learned.entry is not None, "footprint": entry.get("footprint")}
        shares = {"known_rows": entry.get("known_rows"), "volume": entry.get("volume")}
        told.pop("update", None)
        if learned.entry is not None:
            told |= self.store.check(snapshot, learned.snapshot)
        return told | would | shares | {"version": snapshot.version, "dry_run": True}

    async def outcomes(self, request: Request) -> Response:
        """Learn targets of predictions that were kept."""
        key = key_of(request)
        options = _learning(request)
        if kind_of(request) != JSON:
            raise Problem(415, f"send outcomes as {JSON}")
        body = await self._bodies.read(request)
        try:
            predicted = f"outcomes\n{sorted(options.items())}\n".encode() + body
            make = partial(self._come, outcomes=_outcomes_of(json_of(body)), options=options)
            reply = await self._write(key, predicted, make)
        finally:
            self._bodies.release(body)
        if self.store.pending is not None:
            self.metrics.pending.set(len(self.store.pending))
        return answered(reply)

    def _come(self, snapshot: Snapshot, *, outcomes: dict[str, Any], options: dict[str, Any]) -> Change:
        """Learn rows that were kept; errors and coverage are those of what was answered."""
        if self.store.pending is None:
            raise Problem(422, "predictions are not kept; start the service with --pending N")
        found = self.store.pending.find(list(outcomes))
        unknown = [name for name in outcomes if name not in found]
        if unknown:
            shown = ", ".join(map(repr, unknown[:6]))
            raise Problem(422, f"no prediction waits under {shown}; nothing was learned")
        rows = [each.row | {snapshot.target: outcomes[name]} for name, each in found.items()]
        learned = snapshot.learn(bodies.of_rows(rows, snapshot.encoding.names), **options)
        reply = _told(snapshot, learned) | _answered_errors(snapshot, list(found.values()), outcomes)
        return Change(learned.snapshot, reply, tuple(outcomes), is_update=True)

    async def revert(self, request: Request) -> Response:
        """Revert an update."""
        number = _number_of(request, "/revert")

        def make(snapshot: Snapshot) -> Change:
            after, notes = snapshot.revert(number)
            reply: Reply = {"kind": "revert", "reverted": number, "version": after.version}
            return Change(after, reply | ({"notes": notes} if notes else {}))

        return answered(await self._write(key_of(request), f"revert\n{number}".encode(), make))

    async def forget(self, request: Request) -> Response:
        """Forget rows; the answer is the receipt."""
        kind, key = kind_of(request), key_of(request)
        body = await self._bodies.read(request)

        def make(snapshot: Snapshot) -> Change:
            after, receipt = snapshot.forget(self._table(snapshot, body, kind))
            reply = {"kind": "forget", "version": after.version, "receipt": receipt}
            return Change(after, reply)

        try:
            return answered(await self._write(key, f"forget\n{kind}\n".encode() + body, make))
        finally:
            self._bodies.release(body)

    # --- the page ---------------------------------------------------------------------------------------

    async def asset(self, path: str, _: Request) -> Response:
        """A file of the page."""
        found = ASSETS[path]
        headers = {"content-security-policy": POLICY, "content-type": found.kind}
        return Response(found.content, headers=headers)

    async def life(self, _: Request) -> Response:
        """What the page shows first."""
        store, snapshot = self.store, self.store.snapshot
        work = partial(life, snapshot, store.path.name, store.coverage_of_updates(), store.read_only)
        return answered(await self._read(self.limits.small_rows + 1, work))

    async def tried(self, request: Request) -> Response:
        """A row and its surroundings, by this version and maybe by the one without an update."""
        if kind_of(request) != JSON:
            raise Problem(415, f"send a row as {JSON}")
        body = await self._bodies.read(request)
        try:
            content = json_of(body)
        finally:
            self._bodies.release(body)
        row, without = content.get("row"), content.get("without")
        if type(row) is not dict:
            raise Problem(422, '"row" must be an object, such as {"size": 30}')
        if without is not None and type(without) is not int:
            raise Problem(422, '"without" must be the number of an update')
        snapshot = self.store.snapshot

        def work() -> Reply:
            return tried(snapshot, row, None if without is None else self._without(snapshot, without))

        return answered(await self._read(self.limits.small_rows + 1, work))

    async def why(self, request: Request) -> Response:
        """Which columns and which updates the prediction of a row comes from."""
        if kind_of(request) != JSON:
            raise Problem(415, f"send a row as {JSON}")
        body = await self._bodies.read(request)
        try:
            row = json_of(body).get("row")
        finally:
            self._bodies.release(body)
        if type(row) is not dict:
            raise Problem(422, '"row" must be an object, such as {"size": 30}')
        return answered(await self._explain(partial(why, self.store.snapshot, row)))

    async def undo(self, request: Request) -> Response:
        """What it would change to revert an update."""
        number, snapshot = _number_of(request, "/undo"), self.store.snapshot

        def work() -> Reply:
            return changed_by(snapshot, self._without(snapshot, number)) | {"version": snapshot.version}

        return answered(await self._read(self.limits.small_rows + 1, work))

    def _without(self, snapshot: Snapshot, number: int) -> Snapshot:
        """A version without an update; the last few are kept, since the page asks for one several times."""
        known = self._others.get((snapshot.version, number))
        if known is None:
            known, _ = snapshot.revert(number)
            while len(self._others) >= OTHERS:
                self._others.pop(next(iter(self._others)), None)
            self._others[snapshot.version, number] = known
        return known

    # --- what there is ----------------------------------------------------------------------------------

    async def log(self, request: Request) -> Response:
        """Entries of the log, oldest first."""
        text = request.query_params.get("after", "0")
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Problem(422, "after must be the number of an update")
        snapshot = self.store.snapshot
        entries = await self._read(self.limits.small_rows + 1, partial(snapshot.log, int(text)))
        return answered({"version": snapshot.version, "entries": entries}, headers=_of(snapshot))

    async def model(self, _: Request) -> Response:
        """Columns, target and version."""
        snapshot = self.store.snapshot
        return answered(described(snapshot, self.store.read_only), headers=_of(snapshot))

    async def health(self, _: Request) -> Response:
        """Whether the process runs."""
        return answered({"status": "ok", "seconds": round(time.time() - self._started, 3)})

    async def ready(self, _: Request) -> Response:
        """Whether requests should come here."""
        version = self.store.snapshot.version
        if not self.is_ready:
            return answered({"status": "ending"}, 503)
        if self.store.problem:
            return answered({"status": "old version", "problem": self.store.problem, "version": version}, 503)
        return answered({"status": "ready", "version": version})

    async def measured(self, _: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, _: Request) -> Response:
        """What can be asked, for programs."""
        return answered(description(self.store.snapshot))


def _number_of(request: Request, path: str) -> int:
    """The number of an update in a path."""
    text = request.url.path.removeprefix(path).strip("/")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Problem(422, f"name the number of an update, such as {path}/3; /log lists them")
    return int(text)


def _weighted(figures: deque[tuple[int, float]]) -> float:
    """Mean of figures by their rows."""
    rows = sum(count for count, _ in figures)
    return sum(count * figure for count, figure in figures) / rows


def _learning(request: Request) -> dict[str, Any]:
    """How rows are to be learned, by a query."""
    query = request.query_params
    ignore = [name for text in query.getlist("ignore") for name in text.split(",") if name]
    texts = {name: query.get(name, "") for name in ("author", "message")}
    flags = {name: flag(request, name) for name in ("accept", "assess", "new_columns")}
    return texts | flags | {"ignore": tuple(ignore)}


def _outcomes_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Targets by identifier."""
    found = content.get("outcomes")
    if not isinstance(found, dict) or not found:
        raise Problem(422, '"outcomes" must be an object of targets by id, such as {"a17": 12.5}')
    return found


def _of(snapshot: Snapshot) -> dict[str, str]:
    """Headers of an answer of a version."""
    return {"atlas-version": snapshot.version}


def _plain(snapshot: Snapshot, answer: Answer, notes: Notes) -> Reply:
    """An answer as JSON has it."""
    reply: Reply = {"predictions": answer.predictions.tolist(), "version": snapshot.version}
    if answer.intervals:
        name = "sets" if snapshot.is_classifier else "intervals"
        reply[name] = {
            f"{coverage:g}": [snapshot.region(each) for each in ends]
            for coverage, ends in answer.intervals.items()
        }
    if answer.support is not None:
        reply["support"] = answer.support.tolist()
    if answer.probabilities is not None:
        reply["classes"] = list(snapshot.encoding.classes or ())
        reply["probabilities"] = answer.probabilities.tolist()
    if answer.explanation is not None:
        reply["explanation"] = {
            name: np.asarray(getattr(answer.explanation, name)).tolist()
            for name in ("values", "base_values", "feature_names", "output_names")
        } | {"unit": answer.explanation.unit}
    if notes:
        reply["notes"] = notes
    return reply


def _told(before: Snapshot, learned: Learned) -> Reply:
    """What is told of an update."""
    entry = learned.entry
    reply: Reply = {"version": learned.snapshot.version, "coverage": learned.coverage}
    if learned.notes:
        reply["notes"] = learned.notes
    if entry is None:
        return reply | {"update": None, "rows": 0, "learned": False, "version": before.version}
    facts = ("kind", "rows", "reason", "caution", "measure", "error_before", "held_out", "seconds")
    told = {name: entry.get(name) for name in facts}
    return {"update": entry["id"], "learned": True} | reply | told


def _answered_errors(snapshot: Snapshot, rows: list[Waiting], outcomes: Mapping[str, Any]) -> Reply:
    """Error and coverage of what was answered, now that the targets are known."""
    answers = [(each.prediction, each.region, outcomes[each.id]) for each in rows]
    regions = [(region, target) for _, region, target in answers if region is not None]
    if snapshot.is_classifier:
        wrong = [prediction != target for prediction, _, target in answers]
        inside = [target in region for region, target in regions]
        reply: Reply = {"answered_error": float(np.mean(wrong)), "answered_measure": "share of wrong classes"}
    else:
        errors = np.array([float(prediction) - float(target) for prediction, _, target in answers])
        inside = [region[0] <= float(target) <= region[1] for region, target in regions]
        reply = {"answered_error": float(np.sqrt(np.mean(errors**2))), "answered_measure": "RMSE"}
    return reply | ({"coverage": float(np.mean(inside))} if inside else {})


def described(snapshot: Snapshot, read_only: bool) -> Reply:
    """What a version is."""
    columns: list[dict[str, Any]] = []
    for column in snapshot.encoding.columns:
        if column.categories is not None:
            columns.append({"name": column.name, "kind": "category", "categories": _names(column)})
        elif column.calendar is not None:
            columns.append({"name": column.name, "kind": "date", "parts": list(column.calendar.parts)})
        else:
            columns.append({"name": column.name, "kind": "number"})
    record = snapshot.estimator.fit_record_
    return {
        "version": snapshot.version,
        "target": snapshot.target,
        "task": "classification" if snapshot.is_classifier else "regression",
        "classes": None if snapshot.encoding.classes is None else list(snapshot.encoding.classes),
        "columns": columns,
        "missing": snapshot.takes_missing,
        "updates": snapshot.newest,
        "fit": None if record is None else str(record),
        "read_only": read_only,
    }


def _names(column: Any) -> list[str]:
    return [*column.categories, *column.others]
