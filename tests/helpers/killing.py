"""A program that is killed while it works."""

import os
import signal
import subprocess
import sys
import time

PATIENCE = 120  # seconds


def kill_at_first_result(code, folder, results):
    """Run a program, and kill it and its processes as soon as a JSON file lies in a folder."""
    script = folder / "long.py"
    script.write_text(code, encoding="utf8")
    process = subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE
    while not any(results.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
