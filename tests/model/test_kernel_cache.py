"""Compiled code on disk, where the disk is read-only, full or broken."""

import errno
import os
import subprocess
import warnings

import numba
import pytest
from command import COMMAND

from atlas_splines import Atlas, save
from atlas_splines.model import kernel_cache
from atlas_splines.model.kernel_cache import CheckedFiles, NotKept, compiled

NOWHERE = """
import tempfile

def refuse(*args, **options):
    raise PermissionError("read-only")

tempfile.TemporaryFile = refuse  # that is how numba finds out whether a folder can be written
"""


def double(x):
    return 2 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the code of this test is kept; nothing has been told yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel_cache.warn_once.cache_clear()
    return tmp_path


def compile_and_run():
    """Compile a function as another process would; whether its code came from disk."""
    function = compiled(nogil=True)(double)
    assert function(21) == 42
    return sum(function.stats.cache_hits.values()) == 1


def kept_files(folder, ending):
    (path,) = folder.rglob(f"*.{ending}")
    return path


def test_code_is_kept(folder):
    assert not compile_and_run()
    assert compile_and_run()


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: bytes(len(data)),
        lambda data: data[: len(data) // 2] + b"\0\1\2\3" * 25 + data[len(data) // 2 + 100 :],
    ],
    ids=["empty", "half", "cut", "zero", "overwritten"],
)
def test_a_broken_cache_is_healed(folder, ending, damage):
    compile_and_run()
    path = kept_files(folder, ending)
    path.write_bytes(damage(path.read_bytes()))
    assert not compile_and_run()
    assert compile_and_run()


def test_a_full_disk_is_told_once_and_stops_nothing(folder, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(CheckedFiles, "_open_for_write", full)
    with pytest.warns(
        NotKept, match="compiled code is not kept.*No space left on device in .*NUMBA_CACHE_DIR"
    ) as told:
        compile_and_run()
    assert not compile_and_run()
    assert len(told) == 1


def test_where_no_folder_can_be_written_code_is_compiled_in_memory(folder, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError("read-only")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.warns(NotKept, match="no folder for it can be written; set NUMBA_CACHE_DIR") as told:
        compile_and_run()
    assert not compile_and_run()
    assert len(told) == 1


def test_nothing_is_told_where_all_is_well(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_and_run()


@pytest.mark.slow
def test_the_command_says_it_in_a_line(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NOWHERE, encoding="utf8")
    save(Atlas(1), tmp_path / "m.atlas")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*COMMAND, "inspect", "m.atlas"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("m.atlas: Atlas")
    assert done.stderr.splitlines() == [
        "atlas: compiled code is not kept, so each start compiles anew: no folder for it can be written; "
        "set NUMBA_CACHE_DIR to a folder with space that can be written"
    ]
