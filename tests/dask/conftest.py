import pytest
from distributed import Client


@pytest.fixture(scope="module")
def client():
    """A cluster of one worker in this process."""
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        yield client
