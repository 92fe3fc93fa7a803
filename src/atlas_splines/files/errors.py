"""What can be wrong with a file, in sentences that name it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["LockedError", "StorageError", "naming"]


class StorageError(ValueError):
    """A file could not be read or written; the message names it, and says what is wrong and what to do.

    Examples
    --------
    >>> from atlas_splines import load
    >>> load("pyproject.toml")
    Traceback (most recent call last):
    ...
    atlas_splines.files.errors.StorageError: pyproject.toml is not an atlas-splines file; check the name
    """


class LockedError(StorageError):
    """Another process is changing the file."""


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file it was, whatever is wrong with it."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the name") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    except (ValueError, TypeError, ArithmeticError) as error:
        raise StorageError(
            f"{path} cannot be loaded: {error}; restore it from a copy, or save the model again"
        ) from error
    except MemoryError as error:
        raise StorageError(f"{path} does not fit into memory; load it on a larger machine") from error
