"""The layout of CONTRIBUTING.md, checked from the import statements."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import atlas_splines

SOURCE = Path(atlas_splines.__file__).parent

# Each folder may import those above it. Folders on one line do not know each other.
LEVELS = [
    {"core"},
    {"memory", "analysis", "files"},
    {"estimators"},
    {"tables"},
    {"storage", "nn", "plots"},
    {"experiments"},
    {"cli"},
]
ONLY_IMPORTER = {
    "numba": "core/kernels.py",
    "llvmlite": "core/kernels.py",
    "matplotlib": "plots/",
    "pyarrow": "tables/",
    "sklearn": "estimators/",
    "torch": "nn/",
    "typer": "cli/",
}


def module_files():
    paths = (path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)
    return sorted(path for path in paths if "experiments" not in path.parts)


def place(path):
    """Where a file stands, such as "core/model.py"."""
    return path.relative_to(SOURCE).as_posix()


def imports(path):
    """Dotted names that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(path)} uses a relative import"
            yield node.module
            if node.module == "atlas_splines":
                yield from (f"atlas_splines.{alias.name}" for alias in node.names)


def level(folder):
    return next((i for i, names in enumerate(LEVELS) if folder in names), None)


@pytest.mark.parametrize("path", module_files(), ids=place)
def test_arrows_point_down(path):
    folder = place(path).partition("/")[0]
    assert level(folder) is not None, f"{folder} has no place in the layout"
    for name in imports(path):
        package, _, module = name.partition(".")
        if package == "atlas_splines" and module not in ("", "__version__"):
            other = module.partition(".")[0]
            assert level(other) is not None, f"{place(path)} imports {name}: import it from its own module"
            fits = other == folder or level(other) < level(folder)
            assert fits, f"{place(path)} must not import {module}"


@pytest.mark.parametrize("path", module_files(), ids=place)
def test_heavy_libraries_have_one_importer(path):
    for name in imports(path):
        owner = ONLY_IMPORTER.get(name.partition(".")[0], "")
        assert place(path).startswith(owner), f"{place(path)} imports {name}, which belongs in {owner}"


@pytest.mark.parametrize("folder", sorted(set.union(*LEVELS)))
def test_each_folder_says_what_it_is_for(folder):
    text = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text(encoding="utf8")))
    assert text, f"{folder}/__init__.py has no docstring"
    assert "import" in text.lower(), f"{folder}/__init__.py does not say what may import it"


EXPERIMENTS = [*SOURCE.glob("experiments/**/*.py")]
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
                "core.splines",
            ] or module.startswith(("experiments", "files"))
            assert public, f"{path.parent.name}/{path.name} imports {name}, which is not public"
        assert path.stem in IMPORTERS.get(package, {path.stem}), f"{path.name} must not import {name}"
        assert not (path.parent.name == "paper" and "arena" in module)


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
    assert set(atlas_splines.__all__) == set(atlas_splines._MODULE_OF)
    assert set(atlas_splines.__all__) <= set(dir(atlas_splines))
    with pytest.raises(AttributeError, match="module 'atlas_splines' has no attribute 'Atlass'"):
        atlas_splines.Atlass  # noqa: B018
