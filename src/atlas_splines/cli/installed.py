"""`atlas --version`: what is installed, told without importing any of it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from atlas_splines import __version__
from atlas_splines.cli.messages import aligned

__all__ = ["installed_lines"]

NEEDED = ("numpy", "numba", "scipy", "scikit-learn", "pyarrow")
EXTRAS = ("torch", "onnx", "onnxruntime", "dask", "pandas", "openpyxl", "river")


def installed_lines() -> list[str]:
    """The package itself, Python, and packages that matter here, each with its version."""
    packages = [(name, version_of(name)) for name in (*NEEDED, *EXTRAS)]
    return aligned([("atlas-splines", __version__), ("Python", platform.python_version()), *packages])


def version_of(package: str) -> str:
    """Version of a package, or that it is not installed.

    Examples
    --------
    >>> version_of("no-such-package")
    'not installed'
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
