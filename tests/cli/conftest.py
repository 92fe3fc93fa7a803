import pytest
from command import HEADER, SMALL, app, homes, run, write_csv

from atlas_splines.cli import rows
from atlas_splines.tables import source as reading
from atlas_splines.tables.sample import SampleRules


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    write_csv(folder / "homes.csv", HEADER, homes())
    result = run(
        app, ["fit", str(folder / "homes.csv"), "-t", "price", "-o", str(folder / "m.atlas"), *SMALL]
    )
    assert result.exit_code == 0, result.output
    return folder / "m.atlas"


@pytest.fixture
def work(tmp_path, fitted, monkeypatch):
    """A folder with a model, its data and new data, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.atlas").write_bytes(fitted.read_bytes())
    (tmp_path / "homes.csv").write_bytes((fitted.parent / "homes.csv").read_bytes())
    write_csv(tmp_path / "new.csv", HEADER, homes(60, 80, 120, factor=3, seed=1))
    return tmp_path


@pytest.fixture
def streams(monkeypatch):
    """As if memory were small: pieces of about a hundred rows, and a sample of 500."""
    monkeypatch.setattr(reading, "BLOCK", 4096)
    monkeypatch.setattr(rows, "SAMPLE_RULES", SampleRules(rows=500))
