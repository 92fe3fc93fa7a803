"""The line on a terminal that tells what a command is doing, if that takes more than two seconds."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, TypeVar

from atlas_splines.tables.wording import visible

__all__ = ["Progress"]

Piece = TypeVar("Piece")

DELAY = 2.0  # seconds of a command before anything is shown
PAUSE = 0.2  # seconds between two looks of the line


class Progress:
    """Tells what is going on, and since when.

    A terminal has one such line: while a command runs another one, the line of the inner one is shown.

    Parameters
    ----------
    title
        What is told as long as there is nothing more to say.
    shown
        Whether to show a line, on standard error. A command that is over sooner shows none.
    finished
        Called with a line for each step when it is over.
    """

    _running: ClassVar[list[Progress]] = []  # from the outermost command to the innermost

    def __init__(self, title: str, shown: bool, finished: Callable[[str], None]) -> None:
        self._text, self._shown, self._finished = title, shown, finished
        self._start, self._width = time.monotonic(), 0  # of what stands on the terminal
        self._over, self._drawing = threading.Event(), threading.RLock()

    @classmethod
    def none(cls) -> Progress:
        """No line at all."""
        return cls("", False, lambda line: None)

    def __enter__(self) -> Progress:
        if self._shown:
            self._running.append(self)
            for outer in self._running[:-1]:
                outer.hide()
            self._teller = threading.Thread(target=self._keep_telling, daemon=True)
            self._teller.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        if self._shown:
            self._teller.join()
            self._running.remove(self)
            self.hide()

    def _keep_telling(self) -> None:
        """Bring the line up to date, also while one step takes long."""
        pause = DELAY
        while not self._over.wait(pause):
            self._draw()
            pause = PAUSE

    def _draw(self) -> None:
        """Write the line over the one before, as much of it as the terminal has room for."""
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        room = shutil.get_terminal_size().columns - 1
        line = visible(f"{self._text} {minutes:02}:{seconds:02}")[:room]
        with self._drawing:
            if self._running[-1] is self:
                self._write(f"\r{line.ljust(self._width)}")
                self._width = len(line)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def hide(self) -> None:
        """Take the line away, so that another one can be printed."""
        with self.hidden():
            pass

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line away, as long as others are printed."""
        with self._drawing:
            if self._width:
                self._write(f"\r{' ' * self._width}\r")
                self._width = 0
            yield

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of one thing, as long as it is done."""
        before, start = self._text, time.perf_counter()
        self._text = name
        try:
            yield
        finally:
            self._text = before
            with self.hidden():
                self._finished(f"{name}: {time.perf_counter() - start:.1f} s")

    @contextlib.contextmanager
    def watched(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Tell how many of so many parts of a table are done."""
        with self.step(name):

            def tell(done: int) -> None:
                self._text = f"{name}: {done:,} of {total:,} parts"

            tell(0)
            yield tell

    def counted(
        self, name: str, pieces: Iterable[Piece], rows: Callable[[Piece], int], total: int | None = None
    ) -> Iterator[Piece]:
        """The pieces of a table; tells how many rows have come, of how many if that is known."""
        count, of_all = 0, "" if total is None else f" of {total:,}"
        with self.step(name):
            for piece in pieces:
                count += rows(piece)
                self._text = f"{name}: {count:,}{of_all} rows"
                yield piece
