"""Attacks on the library: each is tried with a random number generator, says what happened, or raises.

`benchmarks/fuzz.py` runs them for as long as one likes, `test_attacks.py` for about a minute.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import resource
import signal
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import oracle
from command import homes
from mutations import CARELESS, SEALED, outputs_of, rich_model, small_model, stored_things
from typer.testing import CliRunner

from atlas_splines import Atlas, StorageError, consolidate, footprint, load, save, update
from atlas_splines.cli.app import app

Attack = Callable[[Random], str]

MEGABYTES = 50.0  # that a wrong file may cost at most
QUERIES = np.random.default_rng(0).random((200, 2))


class Verdict(Exception):
    """Something was not treated as it should be."""


# --- wrong files --------------------------------------------------------------------------------------------


class WrongFiles:
    """Files that were damaged, or edited and sealed again with the right checksum.

    Bytes that were changed without care must always be refused. Files that were sealed again may happen to be
    valid: then what was loaded must predict, and survive being saved and loaded again.
    """

    def __init__(self, folder: Path, seconds: float = np.inf) -> None:
        self.path, self.seconds, self.costs = folder / "wrong.atlas", seconds, [(0.0, 0.0)]
        self.originals = []
        for model in stored_things().values():
            save(model, self.path)
            self.originals.append(self.path.read_bytes())
            self.check_valid(load(self.path))  # compile before anything is measured

    def __call__(self, random: Random) -> str:
        original, mutate = random.choice(self.originals), random.choice(CARELESS + SEALED)
        data = mutate(random, original)
        self.path.write_bytes(data)
        loaded, sentence = self.measured_load()
        if loaded is None:
            if len(sentence) > 1000 or str(self.path) not in sentence:
                raise Verdict(f"not a clear sentence: {sentence}")
            return f"{mutate.__name__}: refused"
        if data == original:
            return f"{mutate.__name__}: loaded, as its bytes are unchanged"
        if mutate in CARELESS:
            raise Verdict("bytes were changed, and nobody noticed")
        self.check_valid(loaded)
        return f"{mutate.__name__}: loaded, as the edit is valid"

    def measured_load(self) -> tuple[object, str]:
        """What is in the file, or the sentence that it is refused with."""
        loaded, sentence = None, ""
        tracemalloc.start()
        start = time.process_time()
        try:
            loaded = load(self.path)
        except StorageError as error:
            sentence = str(error)
        cost = time.process_time() - start, tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        self.costs.append(cost)
        if cost[0] > self.seconds or cost[1] > MEGABYTES:
            raise Verdict(f"took {cost[0]:.2f} s and {cost[1]:.0f} MB")
        return loaded, sentence

    def check_valid(self, loaded: object) -> None:
        """What was loaded must be a model like any other."""
        predictions = outputs_of(loaded)
        save(loaded, self.path)
        if not np.array_equal(outputs_of(load(self.path)), predictions, equal_nan=True):
            raise Verdict("predictions changed when the loaded model was saved and loaded again")


# --- kills, full disks, readers during writes ---------------------------------------------------------------


class TwoModels:
    """A file that holds one of two models at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / type(self).__name__
        self.folder.mkdir()
        self.path = self.folder / "model.atlas"
        self.models = small_model(), rich_model()
        self.contents = []
        for model in self.models:
            save(model, self.path)
            self.contents.append(self.path.read_bytes())

    def check_whole(self) -> str:
        """Say which of the two is there."""
        content = self.path.read_bytes()
        if content not in self.contents:
            raise Verdict("the file is neither the old model nor the new one")
        return f"model {self.contents.index(content)} is there"


class Kills(TwoModels):
    """A process that saves again and again is killed."""

    def __call__(self, random: Random) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks: the child only saves
            child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                for k in range(1_000_000):
                    save(self.models[k % 2], self.path)
            os._exit(1)
        time.sleep(random.random() * 0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        load(self.path)
        return self.check_whole()


class FullDisk(TwoModels):
    """The disk is full after some bytes."""

    def __call__(self, random: Random) -> str:
        before = self.path.read_bytes()
        new = self.contents.index(before) ^ 1
        room = random.randrange(len(self.contents[new]))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            save(self.models[new], self.path)
        except StorageError as error:
            sentence = str(error)
        else:
            raise Verdict("a file was written that there was no room for")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if str(self.path) not in sentence or self.path.read_bytes() != before:
            raise Verdict(f"the file is not as it was, or the sentence does not name it: {sentence}")
        if [path.name for path in self.folder.iterdir()] != [self.path.name]:
            raise Verdict("a temporary file was left")
        return "refused, and the old model is there"


class ReadersDuringWrites(TwoModels):
    """Threads load a file that another replaces."""

    def __call__(self, random: Random) -> str:
        expected = {outputs_of(model).tobytes() for model in self.models}
        saves = random.randrange(2, 6)
        with reading([lambda: outputs_of(load(self.path)).tobytes()] * 2) as seen:
            for k in range(saves):
                save(self.models[k % 2], self.path)
        if not seen <= expected:
            raise Verdict("a reader has seen neither the old model nor the new one")
        return "every read was of a whole model"


@contextlib.contextmanager
def reading(reads: list[Callable[[], bytes]]) -> Iterator[set[bytes]]:
    """Let threads read until the block ends; what they have seen is complete then."""
    seen: set[bytes] = set()
    failures: list[BaseException] = []
    over = threading.Event()

    def go_on(read: Callable[[], bytes]) -> None:
        try:
            seen.add(read())
            while not over.is_set():
                seen.add(read())
        except BaseException as error:  # of any kind: it is raised again below
            failures.append(error)

    threads = [threading.Thread(target=go_on, args=(read,)) for read in reads]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in threads:
            thread.start()
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    if failures:
        raise Verdict(f"a reader failed: {failures[0]!r}") from failures[0]


# --- threads ------------------------------------------------------------------------------------------------


class Threads:
    """Threads predict, copy and ask for footprints while another changes the model in random ways."""

    def __call__(self, random: Random) -> str:
        model = oracle.randomize(Atlas(2, terms=1, density=1), seed=random.randrange(100))
        allowed = {model(QUERIES).tobytes()}
        reads = [
            lambda: model(QUERIES).tobytes(),
            lambda: model.copy()(QUERIES).tobytes(),
            lambda: (footprint(model, QUERIES, retention="none"), model(QUERIES).tobytes())[1],
        ]
        with reading(reads) as seen:
            for _ in range(5):
                self.change(model, random)
                allowed.add(model(QUERIES).tobytes())
        if not seen <= allowed:
            raise Verdict("a prediction is of no state that the model had")
        return "every prediction was of a whole state"

    def change(self, model: Atlas, random: Random) -> None:
        """Make one change of any kind."""
        X = random.random() * QUERIES[:60]
        revertible = [
            r.id
            for r in model.updates
            if r.kind == "chart" and any(chart.update == r.id for chart in model.charts)
        ]
        kind = random.choice(
            ["expand", "extend", "revert", "consolidate", "chart", "rehearsal", "both", "none"]
        )
        if kind == "expand" and model.density < 4:
            model.expand(density=random.randrange(2), terms=1)
        elif kind == "extend":
            model.extend(model.domain[:, 0] - random.random(), model.domain[:, 1] + random.random())
        elif kind == "revert" and revertible:
            model.revert(random.choice(revertible))
        elif kind == "consolidate" and model.charts:
            consolidate(model, tolerance=1e9, density=model.density, samples=50, epochs=1, random_state=0)
        elif kind in ("chart", "rehearsal", "both", "none"):
            update(model, X, 1 + X[:, 0], retention=kind, terms=1, density=0, epochs=1, random_state=0)


# --- tables -------------------------------------------------------------------------------------------------

CELLS = [
    "", "NA", "nan", "inf", "-inf", "1e400", "-1e400", "1e-320", "0x10", "1_000", "1,5", "١٢", "é", "\0", "\ud83d", '"', '"a', "a" * 5000,
    "9" * 400, "-0", "+5", " 7 ", "true", "2024-01-01", "=1+1", "\r", "\n", "Cadiz", "Oslo", "1e308", "-1e308", "5e-324", "900000",
]  # fmt: skip


class HostileTables:
    """Tables that are not what they should be, given to the command.

    It must end with 0, or with 2 and a line that says why; whatever it does, the model file stays whole.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tables"
        self.folder.mkdir()
        self.path, self.model = self.folder / "rows.csv", self.folder / "m.atlas"
        self.header = ["size", "age", "city", "garden", "price"]
        self.write(homes(80))
        small = ["--members", "1", "--terms", "0", "--density", "0", "-q"]
        self.run("fit", str(self.path), "-t", "price", "-o", str(self.model), *small)
        self.original = self.model.read_bytes()

    def write(self, rows: list[tuple[object, ...]]) -> bytes:
        text = io.StringIO()
        csv.writer(text).writerows([self.header, *rows])
        data = text.getvalue().encode("utf8", "surrogatepass")
        self.path.write_bytes(data)
        return data

    def __call__(self, random: Random) -> str:
        self.model.write_bytes(self.original)
        self.damage(random)
        command = random.choice(["predict", "predict", "update", "update", "fit"])
        rows, model = str(self.path), str(self.model)
        retention = random.choice(["auto", "pool", "none"])
        arguments = {
            "predict": ["predict", model, rows, "-o", str(self.folder / "out.csv")],
            "update": ["update", model, rows, "--retention", retention],
            "fit": [
                "fit",
                rows,
                "-t",
                "price",
                "-o",
                model,
                "--force",
                "--terms",
                "0",
                "--density",
                "0",
                "--members",
                "1",
            ],
        }[command]
        code = self.run(*arguments)
        load(self.model)
        if code and self.model.read_bytes() != self.original:
            raise Verdict("a command that failed has changed the model")
        return f"{command}: refused" if code else f"{command}: done"

    def damage(self, random: Random) -> None:
        """Write a table with hostile cells, or with bytes that are no table."""
        rows = [list(row) for row in homes(random.choice([0, 1, 2, 40]), seed=random.randrange(9))]
        for _ in range(random.choice([0, 1, 1, 3])):
            if rows:
                row = random.choice(rows)
                row[random.randrange(5)] = random.choice(CELLS)
                if random.random() < 0.2:
                    row.insert(random.randrange(6), random.choice(CELLS))
        data = bytearray(self.write(rows))
        action = random.randrange(8)
        if action == 0:
            data[random.randrange(len(data))] = random.randrange(256)
        elif action == 1:
            del data[random.randrange(len(data)) :]
        elif action == 2:
            data[:0] = random.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"PAR1", b"\x1f\x8b", b"\n\n", b'"'])
        self.path.write_bytes(data)

    def run(self, *arguments: str) -> int:
        done = CliRunner().invoke(app, arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise Verdict(f"{arguments[0]} raised {done.exception!r}") from done.exception
        if done.exit_code not in (0, 2) or (done.exit_code and not done.stderr.strip()):
            raise Verdict(f"{arguments[0]} ended with {done.exit_code}: {done.output}")
        return done.exit_code


def attacks(folder: Path, seconds: float = np.inf) -> dict[str, Attack]:
    """All attacks, by name; a wrong file may take so many seconds of processor time."""
    return {
        "wrong files": WrongFiles(folder, seconds),
        "kills": Kills(folder),
        "full disk": FullDisk(folder),
        "readers during writes": ReadersDuringWrites(folder),
        "threads": Threads(),
        "hostile tables": HostileTables(folder),
    }
