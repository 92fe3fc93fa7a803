"""`atlas demo`, `paper`, `arena` and `play`."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import check_absent, check_picture, load_estimator
from atlas_splines.cli.output import Facts, Say, fail
from atlas_splines.experiments.arena.competition import compete, make_competition
from atlas_splines.experiments.arena.report import findings, text_table
from atlas_splines.experiments.jobs import RunError, without_bars
from atlas_splines.play.bundle import PAGE
from atlas_splines.plots import save_maps
from atlas_splines.tables.encoding import frame
from atlas_splines.tables.writing import TableWriter

__all__ = ["PlayServer", "compare_methods", "demonstrate", "play", "reproduce_paper"]

Array = NDArray[np.float64]

# Where the function changes: (low, high) of each input.
BOX = ((0.55, 0.8), (0.3, 0.55))

# Points of the grid along each input.
SIDE = 200


def old_target(X: Array) -> Array:
    """What the first table says, everywhere."""
    return np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 1]


def new_target(X: Array) -> Array:
    """What the second table says, in the box."""
    return 2 * np.cos(12 * X.sum(axis=1))


def write_table(name: str, X: Array, y: Array) -> None:
    """Write inputs and target to a CSV file."""
    with TableWriter(name) as writer:
        writer.write(frame(["x1", "x2", "y"], [*X.T, y]))


def demonstrate(
    output: Path, run: Callable[[list[str]], None], echo: Say, *, force: bool = False, quiet: bool = False
) -> Facts:
    """Fit a function on the unit square, update it with new values in one box, and draw what changed.

    Parameters
    ----------
    output
        The picture.
    run
        Runs the command with these arguments.
    echo
        Prints a line.
    force
        Whether the picture may replace a file.
    quiet
        Whether the commands print nothing.
    """
    check_picture(output)
    if not force:
        check_absent(output)
    output, home = output.resolve(), Path.cwd()

    def show(line: str) -> None:
        echo("")
        echo(f"$ atlas {line}")
        run([*shlex.split(line), *(["--quiet"] if quiet else [])])

    with tempfile.TemporaryDirectory(prefix="atlas-demo-") as folder:
        os.chdir(folder)
        try:
            write_tables()
            echo(
                "Two tables: old.csv has 10,000 rows of a function of x1 and x2. new.csv has 2,000 rows from"
            )
            echo("one box, where the function has changed.")
            show("fit old.csv --target y --density 4 --terms 10 --members 1 -o model.atlas")
            show("update model.atlas new.csv -o after.atlas")
            show("predict after.atlas new.csv -o predicted.csv")
            show("inspect after.atlas")
            echo("")
            echo("The paper's plain training, for comparison:")
            show("update model.atlas new.csv --retention none -o plain.atlas")
            report_and_draw(output, echo)
        finally:
            os.chdir(home)
    echo(f"The picture is {output}.")
    return {"output": output}


def write_tables() -> None:
    """The function everywhere, and its new values in the box."""
    random = np.random.default_rng(0)
    low, high = np.array(BOX).T
    X = random.random((10_000, 2))
    write_table("old.csv", X, old_target(X))
    X = low + (high - low) * random.random((2_000, 2))
    write_table("new.csv", X, new_target(X))


def report_and_draw(output: Path, echo: Say) -> None:
    """Compare the three models on a grid."""
    side = (np.arange(SIDE) + 0.5) / SIDE
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    low, high = np.array(BOX).T
    inside = ((grid >= low) & (grid <= high)).all(axis=1)
    table = frame(["x1", "x2"], list(grid.T))
    before, after, plain = (
        load_estimator(Path(f"{name}.atlas")).predict(table) for name in ("model", "after", "plain")
    )
    echo("")
    echo("On a grid of 40,000 points:")
    changes = {}
    for name, values in (("plain training", plain), ("a chart", after)):
        change = np.abs(values - before)
        wrong = np.abs(values - new_target(grid))[inside].mean()
        outside = change[~inside]
        echo(f"  with {name}: mean error in the box {wrong:.3f}; outside it")
        echo(f"    {(outside > 0).mean():.1%} of predictions changed, by {outside.mean():.3f} on average.")
        changes[f"changed by {name}"] = change.reshape(SIDE, SIDE)
    maps = {"before": before, "after, with a chart": after}
    save_maps(output, {name: image.reshape(SIDE, SIDE) for name, image in maps.items()}, changes, BOX)


def reproduce_paper(
    output: Path, trials: int, *, jobs: int, scheduler: str | None, quiet: bool, echo: Say, **settings: Any
) -> Facts:
    """Run the experiments that are missing, draw the figures, and tell where the report is."""
    if find_spec("pandas") is None:
        fail("this command needs more packages: pip install 'atlas-splines[paper]'")
    from atlas_splines.experiments.jobs import RunError, without_bars
    from atlas_splines.experiments.paper.reproduction import reproduce
    from atlas_splines.experiments.paper.trials import Settings

    try:
        with without_bars(quiet):
            report = reproduce(output, trials, Settings(**settings), jobs=jobs, scheduler=scheduler)
    except RunError as error:
        fail(str(error))
    echo(f"The report is {report}.")
    return {"report": report}


def compare_methods(
    output: Path,
    *,
    quick: bool,
    seeds: int | None,
    jobs: int,
    scheduler: str | None,
    methods: Sequence[str],
    protocols: Sequence[int],
    data: Sequence[Path],
    targets: Sequence[str],
    split_by: Sequence[str],
    stream_by: Sequence[str],
    stream_first: int | None,
    stream_batch: int | None,
    drop: Sequence[str],
    quiet: bool,
    echo: Say,
) -> Facts:
    """Run what is missing, and tell the results and where the report is."""
    try:
        competition = make_competition(quick, seeds, methods, protocols)
        if split_by or not stream_by:
            competition = competition.with_data(data, targets, split_by, drop)
        competition = competition.with_streams(data, targets, stream_by, drop, stream_first, stream_batch)
        with without_bars(quiet):
            results = compete(output, competition, jobs=jobs, scheduler=scheduler)
    except (RunError, ValueError) as error:
        fail(str(error))
    report, found = output / "report.html", list(findings(results))
    for line in (*text_table(results).splitlines(), "", *found, f"The report is {report}."):
        echo(line)
    return {"report": report, "findings": found}


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


def play(port: int, model: Path | None, *, browser: bool, echo: Say, report: Callable[[Facts], None]) -> None:
    """Serve the playground until Ctrl-C.

    Parameters
    ----------
    port
        Where to listen; 0 takes a port that is free.
    model
        A model file that the page opens.
    browser
        Whether to open a browser.
    echo
        Prints a line.
    report
        Gives the address as JSON.
    """
    if model is not None and not model.is_file():
        raise FileNotFoundError(f"there is no file {model}; check the name")
    with PlayServer(port, model) as server, contextlib.suppress(KeyboardInterrupt):
        echo(f"The playground is at {server.address}")
        echo(f"Without a server: open {PAGE} in a browser. Ctrl-C ends.")
        report({"address": server.address})
        if browser:
            webbrowser.open(server.address)
        server.serve_forever()
