import subprocess
import sys
import textwrap

import pytest
from command import app, run

from atlas_splines import __version__


def test_help_loads_nothing_heavy():
    code = textwrap.dedent("""
        import sys
        from atlas_splines.cli.app import app
        app(["--help"], standalone_mode=False)
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


def test_version_is_told():
    assert run(app, ["--version"]).output == f"atlas-splines {__version__}\n"
