import threading

import pytest
from filelock import FileLock

from atlas_splines import StorageError
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
