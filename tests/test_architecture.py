"""The layout of CONTRIBUTING.md, checked from the import statements."""

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import atlas_splines

SOURCE = Path(atlas_splines.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"

# Each folder may import those above it. Folders on one line do not know each other.
LEVELS = [
    ["model"],
    ["files"],
    ["memory", "analysis"],
    ["updates", "tables"],
    ["estimators"],
    ["io", "nn", "plots", "river"],
    ["versions"],
    ["dask", "experiments", "play"],
    ["cli"],
]
ONLY_IMPORTER = {
    "dask": "dask/",
    "distributed": "dask/",
    "numba": "model/kernel",  # kernels.py and kernel_cache.py
    "llvmlite": "model/kernels.py",
    "matplotlib": "plots/",
    "pyarrow": "tables/",
    "river": "river/",
    "sklearn": "estimators/",
    "torch": "nn/",
    "typer": "cli/",
}


def module_files():
    paths = (path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)
    return sorted(path for path in paths if not place(path).startswith("experiments/"))


def place(path):
    """Where a file stands, such as "model/atlas.py"."""
    return path.relative_to(SOURCE).as_posix()


@cache
def imports(path):
    """Dotted names that a file imports, anywhere in it."""
    return list(imported(path))


def imported(path):
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


def test_the_state_of_a_model_has_one_door():
    touching = [
        place(path)
        for path in sorted(SOURCE.rglob("*.py"))
        if re.search(r"(?<!self)\._state\b", path.read_text(encoding="utf8"))
    ]
    assert touching == ["model/atlas.py", "model/charts.py"]  # elsewhere `state_of` and `take_state` do


@pytest.mark.parametrize("folder", sorted(name for names in LEVELS for name in names))
def test_each_folder_says_what_it_is_for(folder):
    text = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text(encoding="utf8")))
    assert text, f"{folder}/__init__.py has no docstring"
    assert "import" in text.lower(), f"{folder}/__init__.py does not say what may import it"


def test_contributing_shows_the_arrows():
    steps = [", ".join(names) for names in LEVELS]
    assert f"    {' → '.join(steps)}\n" in CONTRIBUTING.read_text(encoding="utf8")


def test_only_public_faces_stand_beside_the_folders():
    assert {path.stem for path in SOURCE.glob("*.py")} == {"__init__", "arena", "paper"}


@pytest.mark.parametrize("face", ["arena", "paper"])
def test_a_face_only_hands_on(face):
    module = import_module(f"atlas_splines.{face}")
    path = SOURCE / f"{face}.py"
    nodes = ast.parse(path.read_text(encoding="utf8")).body
    assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in nodes)
    assert all(name.startswith("atlas_splines.experiments") for name in imports(path))
    for name in module.__all__:
        assert getattr(module, name).__doc__, name


EXPERIMENTS = [*SOURCE.glob("experiments/**/*.py")]
IMPORTERS = {  # within the experiments
    "torch": {"autograd", "pi_sigma", "kasam", "functional", "spline_activations"},
    "kan": {"kan"},
    "river": {"river"},
    "sklearn": {"stored", "online", "protocols"},
    "matplotlib": {"style", "drawings", "figures", "stream_figures"},
}


@pytest.mark.parametrize("path", sorted(EXPERIMENTS), ids=place)
def test_experiments_use_public_names_only(path):
    for name in imports(path):
        package, _, module = name.partition(".")
        if package == "atlas_splines" and module:
            public = module in [*atlas_splines.__all__, "__version__", "model.splines"]
            allowed = public or module == "analysis" or module.startswith(("experiments", "files", "plots"))
            reads_tables = place(path) == "experiments/arena/csv_data.py" and module.startswith("tables")
            assert allowed or reads_tables, f"{place(path)} imports {name}, which is not public"
        importers = IMPORTERS.get(package)
        fits = importers is None or not importers.isdisjoint({path.stem, path.parent.name})
        assert fits, f"{place(path)} must not import {name}"
        for one, other in (("paper", "arena"), ("arena", "paper")):
            assert not (f"experiments/{one}/" in place(path) and f"experiments.{other}" in name)


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["torch", "matplotlib", "sklearn", "scipy", "typer", "tqdm", "numba"]
    code = f"import sys, atlas_splines; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
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
