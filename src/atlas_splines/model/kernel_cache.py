"""On-disk cache of compiled code, in memory if no folder is writable; damaged entries are compiled anew.

Numba looks for a folder: NUMBA_CACHE_DIR, beside the source, in the user's home. Left to itself it fails
where none can be written, where the disk is full, and where a file of its cache was cut off.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["NotKept", "compiled"]

Function = Callable[..., Any]
DIGEST_SIZE = hashlib.sha256().digest_size


class NotKept(UserWarning):
    """Warning that compiled code is not cached on disk."""


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Compile functions with these options of numba, and cache the code on disk if possible."""

    def compile(function: Function) -> Function:
        dispatcher = njit(**options)(function)
        try:
            dispatcher._cache = ForgivingCache(function)
        except (RuntimeError, OSError):  # numba has found no folder
            warn_once("no folder for it can be written")
        return dispatcher

    return compile


@cache
def warn_once(why: str) -> None:
    """Warn once that code is not cached, with the reason."""
    warnings.warn(
        f"compiled code is not kept, so each start compiles anew: {why}; set NUMBA_CACHE_DIR to a folder "
        "with space that can be written",
        NotKept,
        stacklevel=2,
    )


class ForgivingCache(FunctionCache):
    """A cache whose failures only cost time."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        files = self._cache_file
        self._cache_file = CheckedFiles(self._cache_path, self._impl.filename_base, files._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for a signature; None if it is absent or unusable."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever is wrong with a file, the function can be compiled, and saved over it
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for a signature, if the disk permits."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.disable()
            warn_once(f"{error.strerror or error} in {self._cache_path}")


class CheckedFiles(IndexDataCacheFile):
    """Cache files with checksums: damaged machine code must not be executed."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except Exception:  # it is written anew with the next code
            return {}

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            digest, data = file.read(DIGEST_SIZE), file.read()
        if hashlib.sha256(data).digest() != digest:
            raise ValueError(f"{name} is damaged")
        return pickle.loads(data)

    def _save_data(self, name: str, data: Any) -> None:
        dump = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(dump).digest() + dump)
