import platform
import subprocess
import sys
import textwrap
from importlib.metadata import version

import pytest
from command import app, run

from atlas_splines import __version__
from atlas_splines.cli import app as installed


def test_help_loads_nothing_heavy():
    code = textwrap.dedent("""
        import sys
        from atlas_splines.cli.app import app
        app(["--help"], standalone_mode=False)
        app(["--version"], standalone_mode=False)
        heavy = ["numpy", "numba", "sklearn", "scipy", "pyarrow", "matplotlib", "torch", "pandas", "rich", "safetensors"]
        print("LOADED", [name for name in heavy if name in sys.modules])
    """)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "revert"),
        (["demo"], "Where to write the picture"),
        (["play"], "Model to show the life of"),
        (["fit"], "Column to predict"),
        (["update"], "Only tell what could change"),
        (["predict"], "A column for each class"),
        (["inspect"], "footprint of each update"),
        (["revert"], "Number of the update"),
        (["export"], "to predict without this package"),
    ],
)
def test_help_explains(command, says):
    result = run(app, [*command, "--help"])
    assert result.exit_code == 0
    assert says in " ".join(result.output.split())


def test_version_says_what_is_installed_and_imports_none_of_it(monkeypatch):
    told = dict(line.split(maxsplit=1) for line in run(app, ["--version"]).output.splitlines())
    assert told["atlas-splines"] == __version__
    assert told["Python"] == platform.python_version()
    for name in ("numpy", "numba", "scikit-learn", "torch", "onnx", "dask"):
        assert told[name] == version(name)
    monkeypatch.setattr(installed, "EXTRAS", ("torch-of-tomorrow",))
    assert run(app, ["--version"]).output.splitlines()[-1] == "torch-of-tomorrow  not installed"
