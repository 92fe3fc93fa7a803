import errno
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading

import pytest
from mutations import small_model

from atlas_splines import Atlas, StorageError, load, save
from atlas_splines.files.writer import replace_files, whole_file, write_whole


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    save(small_model(), path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as caught:
        save(Atlas(inputs=3), path)
    text = "could not be written: No space left on device; make room or choose another folder"
    assert str(caught.value) == f"{path} {text}"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupt_leaves_the_old_file(path, monkeypatch):
    save(small_model(), path)
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(Atlas(inputs=3), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_folders_that_cannot_be_written_to(tmp_path):
    with pytest.raises(StorageError, match="could not be written: No such file or directory"):
        save(small_model(), tmp_path / "nowhere" / "model.atlas")
    with pytest.raises(StorageError, match="could not be written: Is a directory"):
        save(small_model(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden here")
def test_a_read_only_folder(path):
    path.parent.chmod(0o500)
    with pytest.raises(StorageError, match="could not be written: Permission denied"):
        save(small_model(), path)


def test_permissions_are_kept(path):
    save(small_model(), path)
    usual = path.parent / "usual"
    usual.touch()
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    save(small_model(), path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_one(path, tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "real.atlas"
    path.symlink_to(target)
    save(small_model(), path)
    save(small_model(), path)
    assert path.is_symlink()
    assert load(target).fingerprint() == small_model().fingerprint()
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_a_whole_file(path):
    """Children that save one model after the other are killed twenty times."""
    code = """
        import os, random, signal, sys, time
        import numpy as np
        from atlas_splines import Atlas, load, save
        path, random = sys.argv[1], random.Random(0)
        models = [Atlas(inputs=2, density=8) for _ in range(2)]
        models[1].f(8)[:] = 1.0
        whole = {model.fingerprint() for model in models}
        save(models[0], path)
        leftovers = 0
        for _ in range(20):
            child = os.fork()
            if child == 0:
                while True:
                    for model in models:
                        save(model, path)
            time.sleep(0.01 + 0.05 * random.random())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            assert load(path).fingerprint() in whole
            leftovers = len([name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")])
        print(leftovers)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no child was killed while it wrote"


@pytest.mark.slow
def test_reading_while_another_writes(path):
    models = [small_model(), Atlas(inputs=1, density=6)]
    whole = {model.fingerprint() for model in models}
    save(models[0], path)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            for model in models:
                save(model, path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(load(path).fingerprint() in whole for _ in range(200))
    finally:
        stop.set()
        writer.join()


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"old")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"new"
    write_whole(path, b"in ", memoryview(b"parts"))
    assert path.read_bytes() == b"in parts"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_in_the_block_leaves_the_old_file(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"old")

    def write_half():
        with whole_file(path) as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_stream_is_written_into_and_not_replaced(tmp_path):
    """As /dev/null is, which a test that fails should not replace."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for name in (pipe, link):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        save(small_model(), name)
        content = os.read(reader, 2**16)
        os.close(reader)
        (tmp_path / "copy").write_bytes(content)
        assert load(tmp_path / "copy").fingerprint() == small_model().fingerprint()
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "link", "pipe"]


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs sockets in folders")
def test_what_is_neither_a_file_nor_a_stream_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("m.atlas")
        with pytest.raises(
            StorageError, match=r"m\.atlas could not be written: it is neither a file nor a stream"
        ):
            save(small_model(), "m.atlas")
        assert stat.S_ISSOCK(os.stat("m.atlas").st_mode)
    assert os.listdir() == ["m.atlas"]


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_several_files_or_none(tmp_path, monkeypatch, old, failing):
    """Whichever of three cannot take its place, all are as they were."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths if old is not None else []:
        path.write_bytes(old)
    real = os.replace

    def replace(source, target):
        if target == paths[failing]:
            raise OSError(errno.EPERM, "Operation not permitted")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StorageError) as caught:
        replace_files({path: [b"new"] for path in paths})
    text = "could not be written: Operation not permitted; make room or choose another folder"
    assert str(caught.value) == f"{paths[failing]} {text}"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == (
        {} if old is None else dict.fromkeys(paths, old)
    )
    monkeypatch.undo()
    replace_files({path: [b"n", b"ew"] for path in paths})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(paths, b"new")
