"""The recipe for signatures in docs/versions.md, where its tool is installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atlas_splines import Atlas, save

DOCS = Path(__file__).parents[2] / "docs" / "versions.md"


def test_a_model_is_signed_and_verified(tmp_path):
    pytest.importorskip("model_signing")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    save(Atlas(inputs=1, density=0, terms=1), tmp_path / "homes.atlas")
    recipe = re.search(r"\$ pip install model-signing\n(.*?)```", DOCS.read_text(encoding="utf8"), re.S)[1]
    for line in recipe.splitlines():
        command = line.removeprefix("$ ").replace("model_signing", f"{sys.executable} -m model_signing", 1)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    with open(tmp_path / "homes.atlas", "ab") as file:
        file.write(b"more")
    assert subprocess.run(command, shell=True, cwd=tmp_path).returncode != 0
