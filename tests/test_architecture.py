"""The layout of CONTRIBUTING.md, checked from the import statements."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import atlas_splines

SOURCE = Path(atlas_splines.__file__).parent

# Each module may import those before it. Names on one line do not know each other.
LEVELS = [
    {"splines", "kernels", "checks", "jobs"},
    {"losses", "charts", "archives"},
    {"model"},
    {"training", "footprints", "covers"},
    {"growth"},
    {"memory", "analysis", "polynomials", "domains", "fitting"},
    {"estimators", "model_archives"},
    {"estimator_archives", "nn"},
    {"storage", "tables"},
    {"plots", "paper", "encodings"},
    {"commands", "arena"},
    {"demonstration"},
    {"cli"},
]
ONLY_IMPORTER = {
    "numba": "kernels",
    "llvmlite": "kernels",
    "matplotlib": "plots",
    "pyarrow": "tables",
    "sklearn": "estimators",
    "torch": "nn",
    "typer": "cli",
}


def module_files():
    return sorted(path for path in SOURCE.glob("*.py") if path.stem != "__init__")


def imports(path):
    """Dotted names that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            yield node.module
            if node.module == "atlas_splines":
                yield from (f"atlas_splines.{alias.name}" for alias in node.names)


def level(module):
    return next((i for i, names in enumerate(LEVELS) if module.partition(".")[0] in names), None)


@pytest.mark.parametrize("path", module_files(), ids=lambda path: path.stem)
def test_arrows_point_down(path):
    assert level(path.stem) is not None, f"{path.stem} has no place in the layout"
    for name in imports(path):
        package, _, module = name.partition(".")
        if package == "atlas_splines" and module not in ("", "__version__"):
            assert level(module) is not None, f"{path.stem} imports {name}: import it from its own module"
            assert level(module) < level(path.stem), f"{path.stem} must not import {module}"


@pytest.mark.parametrize("path", module_files(), ids=lambda path: path.stem)
def test_heavy_libraries_have_one_importer(path):
    for name in imports(path):
        owner = ONLY_IMPORTER.get(name.partition(".")[0], path.stem)
        assert path.stem == owner, f"{path.stem} imports {name}, which belongs in {owner}"


EXPERIMENTS = [*SOURCE.glob("paper/*.py"), *SOURCE.glob("arena/**/*.py")]
IMPORTERS = {  # within the experiments
    "torch": {"autograd", "pi_sigma", "kasam"},
    "kan": {"kan"},
    "sklearn": {"stored", "protocols"},
    "matplotlib": {"figures", "report"},
}


@pytest.mark.parametrize("path", sorted(EXPERIMENTS), ids=lambda path: path.stem)
def test_experiments_use_public_names_only(path):
    for name in imports(path):
        package, _, module = name.partition(".")
        if package == "atlas_splines" and module:
            public = module in [
                *atlas_splines.__all__,
                "__version__",
                "splines",
                "jobs",
            ] or module.startswith(("paper", "arena"))
            assert public, f"{path.parent.name}/{path.name} imports {name}, which is not public"
        assert path.stem in IMPORTERS.get(package, {path.stem}), f"{path.name} must not import {name}"
        assert not (path.parent.name == "paper" and module.startswith("arena"))


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["torch", "matplotlib", "sklearn", "scipy", "typer", "tqdm", "numba"]
    code = f"import sys, atlas_splines; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_core_loads_numpy_and_numba_only():
    heavy = ["torch", "matplotlib", "sklearn", "scipy.sparse", "typer", "tqdm"]
    code = (
        f"import sys; from atlas_splines import Atlas, train; print([m for m in {heavy} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_is_there_and_documented():
    for name in atlas_splines.__all__:
        assert getattr(atlas_splines, name).__doc__, name
    assert set(atlas_splines.__all__) == set(atlas_splines._HOME)
    assert set(atlas_splines.__all__) <= set(dir(atlas_splines))
    with pytest.raises(AttributeError, match="module 'atlas_splines' has no attribute 'Atlass'"):
        atlas_splines.Atlass  # noqa: B018
