import errno
import os
import subprocess
import sys
import textwrap
import threading

import pytest
from filelock import FileLock

from atlas_splines import StorageError
from atlas_splines.files import locks
from atlas_splines.files.locks import lock


def test_a_lock_keeps_others_out(path, tmp_path):
    link = tmp_path / "link.atlas"
    link.symlink_to(path)
    with lock(path):
        for name in (path, link):
            with (
                pytest.raises(
                    StorageError, match=r"another process is updating .*; try again, or wait longer"
                ),
                lock(name, timeout=0),
            ):
                pass
        assert (tmp_path / ".model.atlas.lock").exists()
    with lock(link, timeout=0):
        pass


def test_a_lock_is_freed_by_an_error(path):
    with pytest.raises(KeyError), lock(path):
        raise KeyError
    with lock(path, timeout=0):
        pass


def test_a_lock_waits_for_its_turn(path):
    holder = FileLock(path.with_name(".model.atlas.lock"), thread_local=False)
    holder.acquire()
    timer = threading.Timer(0.1, holder.release)
    timer.start()
    with lock(path):
        assert not holder.is_locked
    timer.join()


def test_a_lock_in_a_folder_that_is_not_there(tmp_path):
    with (
        pytest.raises(StorageError, match=r"cannot be locked: there is no folder .*none; check the name"),
        lock(tmp_path / "none" / "model.atlas"),
    ):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be removed there")
def test_processes_take_turns_and_leave_nothing_behind(path, tmp_path):
    (tmp_path / ".model.atlas.lock").touch()  # of a process that was killed
    (tmp_path / "count").write_text("0")
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from atlas_splines.files.locks import lock

        for _ in range(20):
            with lock(sys.argv[1], timeout=60):
                file = Path(sys.argv[2])
                count = int(file.read_text())
                file.write_text("")  # whoever reads it now fails
                file.write_text(str(count + 1))
    """)
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "count")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0] * 3
    assert (tmp_path / "count").read_text() == "60"
    assert not (tmp_path / ".model.atlas.lock").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be removed there")
def test_a_lock_on_a_file_that_was_removed_meanwhile_does_not_count(path, monkeypatch):
    """Who has waited for a file that goes away must not meet others in a new one of the same name."""
    file, flock = path.with_name(".model.atlas.lock"), locks.fcntl.flock
    holder = FileLock(file)

    def flock_too_late(descriptor, operation):
        monkeypatch.setattr(locks.fcntl, "flock", flock)
        file.unlink()
        holder.acquire()
        flock(descriptor, operation)

    monkeypatch.setattr(locks.fcntl, "flock", flock_too_late)
    with pytest.raises(StorageError, match="another process is updating"), lock(path, timeout=0):
        pass
    holder.release()


@pytest.fixture
def files_of_another(monkeypatch):
    """The modes of files that exist already are those that another user set: this one is everybody else."""
    real = os.open

    def strict(file, flags, *mode):
        if os.path.lexists(file) and not os.path.isdir(file):
            allowed = os.lstat(file).st_mode & (0o006 if flags & os.O_RDWR else 0o004)
            if allowed != (0o006 if flags & os.O_RDWR else 0o004):
                raise PermissionError(errno.EACCES, "Permission denied")
        return real(file, flags, *mode)

    monkeypatch.setattr(os, "open", strict)


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files mean little there")
def test_a_lock_that_a_killed_process_of_another_user_left(path, files_of_another):
    file = path.with_name(".model.atlas.lock")
    file.touch()
    file.chmod(0o644)
    with lock(path, timeout=0):
        pass
    file.touch()
    file.chmod(0o600)
    text = f"{path} cannot be changed: its lock {file} cannot be taken: Permission denied; if nobody updates the model, remove it"
    with pytest.raises(StorageError) as caught, lock(path, timeout=0):
        pass
    assert str(caught.value) == text


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files mean little there")
def test_others_can_lock_whatever_the_umask(path):
    before = os.umask(0o077)
    try:
        with lock(path):
            assert path.with_name(".model.atlas.lock").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_folder_that_cannot_be_written_is_told(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(
            StorageError, match="its folder cannot be written: Read-only file system; choose another"
        ),
        lock(path),
    ):
        pass


def test_a_stream_needs_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "held", None)
    with lock(os.devnull):
        pass
