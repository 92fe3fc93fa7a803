"""Where the command begins: how it ends when it is told to stop, before anything heavy is imported."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command.

    Until it is imported there is nothing to clean up: Ctrl-C just ends it, without a traceback. Later, being
    told to end by SIGTERM or SIGHUP is an exit like any other, which removes temporary files.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from atlas_splines.cli.app import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), end)
    app()


def end(number: int, _: object) -> None:
    """End with the exit code that shells give to a signal."""
    sys.exit(128 + number)
