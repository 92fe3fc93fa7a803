import runpy
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["head", "charts", "physics"])
def test_examples_run(name, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "examples" / f"torch_{name}.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--steps", "20"])
    runpy.run_path(str(script), run_name="__main__")
    assert "error" in capsys.readouterr().out


def test_without_torch_there_is_one_clear_sentence():
    code = "import sys; sys.modules['torch'] = None; import atlas_splines.nn"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: atlas_splines.nn needs PyTorch; install it with: pip install 'atlas-splines[torch]'"
    )
