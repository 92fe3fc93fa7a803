import shutil

import pytest
from service import Service, fitted_homes

pytest.importorskip("starlette", reason="needs the extra serve")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A file that is not changed."""
    return fitted_homes(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def model(fitted, tmp_path):
    """A copy of it."""
    return shutil.copy(fitted, tmp_path / "homes.atlas")


@pytest.fixture(scope="module")
def service(fitted, tmp_path_factory):
    """A service that the tests of a module share, without a token; it keeps predictions."""
    path = shutil.copy(fitted, tmp_path_factory.mktemp("served") / "homes.atlas")
    with Service(path, "--pending", "50") as found:
        yield found
