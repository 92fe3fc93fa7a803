"""How the command ends when it is told to stop."""

import os
import signal
import subprocess
import sys
import time

import pytest

PATIENCE = 120  # seconds
PROGRAM = [sys.executable, "-c", "from atlas_splines.cli.entry import main; main()"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def test_ctrl_c_while_it_is_imported_ends_without_a_traceback(tmp_path):
    interrupts = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "typer.py").write_text(interrupts, encoding="utf8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(PROGRAM, capture_output=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_told_to_end_leaves_no_temporary_file(work, name):
    folder = work / "temporary"
    folder.mkdir()
    process = subprocess.Popen(
        [*PROGRAM, "predict", "m.atlas", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    deadline = time.monotonic() + PATIENCE
    while not any(folder.glob("atlas-*/input")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert any(folder.iterdir())
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate()
    assert process.returncode == 128 + getattr(signal, name)
    assert errors == b""
    assert not any(folder.iterdir())
