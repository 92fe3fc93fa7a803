"""The line on a terminal that tells what a command is doing, if that takes more than two seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["Progress"]

Piece = TypeVar("Piece")

DELAY = 2.0  # seconds of a command before anything is shown
PAUSE = 0.2  # seconds between two looks of the line


class Progress:
    """Tells what is going on, and since when.

    Parameters
    ----------
    title
        What is told as long as there is nothing more to say.
    shown
        Whether to show a line, on standard error. A command that is over sooner shows none.
    finished
        Called with a line for each step when it is over.
    """

    def __init__(self, title: str, shown: bool, finished: Callable[[str], None]) -> None:
        self._text, self._shown, self._finished = title, shown, finished
        self._bar: Any = None
        self._over = threading.Event()

    @classmethod
    def none(cls) -> Progress:
        """No line at all."""
        return cls("", False, lambda line: None)

    def __enter__(self) -> Progress:
        if self._shown:
            from tqdm import tqdm

            self._bar = tqdm(bar_format="{desc} {elapsed}", file=sys.stderr, leave=False, delay=DELAY)
            threading.Thread(target=self._keep_telling, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        if self._bar is not None:
            self._bar.close()

    def _keep_telling(self) -> None:
        """Bring the line up to date, also while one step takes long."""
        pause = DELAY
        while not self._over.wait(pause):
            self._bar.set_description_str(self._text)
            pause = PAUSE

    def hide(self) -> None:
        """Take the line away, so that another one can be printed."""
        if self._bar is not None:
            self._bar.clear()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of one thing, as long as it is done."""
        before, start = self._text, time.perf_counter()
        self._text = name
        try:
            yield
        finally:
            self._text = before
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
