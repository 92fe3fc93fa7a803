"""Check what would be released: python tests/check_package.py FOLDER, where the sdist and the wheel are.

The wheel is installed into a new environment, and the command is run there, far from the source.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from urllib.request import urlopen

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
IN_SDIST = ["pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile"]
LARGEST = 20_000_000  # bytes of an sdist; docs has pictures and results


def main(folder: Path) -> None:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    version = check_wheel(wheel)
    check_sdist(sdist, version)
    with tempfile.TemporaryDirectory() as elsewhere:
        check_command(wheel, Path(elsewhere), version)
    print(
        f"{wheel.name} and {sdist.name} are whole, and atlas {version} runs where only the wheel is installed."
    )


def check_wheel(wheel: Path) -> str:
    """What is in the wheel; the version that its metadata tells."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(
            archive.read(record), validate=True
        )  # raises what a registry would refuse
    assert {name.partition("/")[0] for name in names} == {"atlas_splines", record.partition("/")[0]}
    sources = (ROOT / "src").rglob("*")
    files = {path.relative_to(ROOT / "src").as_posix() for path in sources if path.is_file()}
    missing = sorted(name for name in files - names if "__pycache__" not in name)
    assert not missing, f"{wheel.name} lacks {missing}"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "BSD-3-Clause"
    return str(metadata.version)


def check_sdist(sdist: Path, version: str) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_SDIST if name not in names]
    assert not missing, f"{sdist.name} lacks {missing}"
    assert not [
        name for name in names if name.startswith(("build/", "docs/tutorials/")) or name.endswith(".pkl")
    ]
    assert sdist.name == f"atlas_splines-{version}.tar.gz"
    assert sdist.stat().st_size < LARGEST


def check_command(wheel: Path, folder: Path, version: str) -> None:
    """Install the wheel into a new environment, and use it there."""
    venv.create(folder / "env", with_pip=True)
    python, atlas = folder / "env" / "bin" / "python", folder / "env" / "bin" / "atlas"
    run(
        folder,
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--disable-pip-version-check",
        wheel.resolve(),
    )
    place = run(
        folder, python, "-c", "import atlas_splines; print(atlas_splines.__version__, atlas_splines.__file__)"
    )
    assert place.startswith(f"{version} {(folder / 'env').resolve()}"), place
    demo = run(folder, atlas, "demo")
    assert re.search(r"atlas-demo\.png", demo), demo
    assert (folder / "atlas-demo.png").stat().st_size > 10_000
    shutil.copy(ROOT / "examples" / "homes.csv", folder)
    fitted = run(folder, atlas, "fit", "homes.csv", "--target", "price", "-o", "homes.atlas")
    assert "The model is homes.atlas" in fitted, fitted
    check_playground(atlas, folder)


def check_playground(atlas: Path, folder: Path) -> None:
    """The page comes with the wheel, and is served."""
    with subprocess.Popen(
        [str(atlas), "play", "--no-browser"], cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            address = server.stdout.readline().split()[-1]
            with urlopen(address, timeout=30) as answer:
                page = answer.read()
        finally:
            server.terminate()
    run(folder, sys.executable, ROOT / "src" / "atlas_splines" / "play" / "bundle.py", folder / "page.html")
    assert page == (folder / "page.html").read_bytes()


def run(folder: Path, *command: object) -> str:
    """What a command prints."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def environment() -> dict[str, str]:
    """Variables for a command, without those that could lead it to the source."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
