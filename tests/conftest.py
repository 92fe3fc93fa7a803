import os
import signal
import tracemalloc
from functools import partial

import pytest
from hypothesis import settings

# the processes of a test run share the cores already; threads of theirs would wait for each other
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # before numpy is imported

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a run tells the same tomorrow
settings.load_profile("repeatable")
SLOW_DOCUMENTS = ("README.md", "torch.md")  # their examples train; a document cannot carry a marker itself


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW_DOCUMENTS or item.path.parent.name == "guides":
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def rich_bytes(tmp_path_factory):
    """A file with all that a model can have."""
    from mutations import rich_model  # tests of the core need not wait for these

    from atlas_splines import save

    path = tmp_path_factory.mktemp("rich") / "model.atlas"
    save(rich_model(), path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    """A name for a model file."""
    return tmp_path / "model.atlas"


@pytest.fixture
def refusal(path):
    """What `load` says of a wrong file; it must not take much more memory than the file."""
    from atlas_splines import StorageError, load

    def message(data):
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with pytest.raises(StorageError) as caught:
                load(path)
            assert tracemalloc.get_traced_memory()[1] < 2**20 + 10 * len(data)
        finally:
            tracemalloc.stop()
        assert str(caught.value).startswith(f"{path} ")
        return str(caught.value).removeprefix(f"{path} ")

    return message


@pytest.fixture
def refusal_of_sealed(refusal):
    """What is wrong with a file that was edited and has the right checksum."""
    from mutations import AGAIN, File

    def message(data, edit):
        file = File.open(data)
        edit(file)
        return refusal(file.seal()).removeprefix("cannot be loaded: ").removesuffix(AGAIN)

    return message


@pytest.fixture
def refusal_of_edit(rich_bytes, refusal_of_sealed):
    """What is wrong with a file of the rich model after an edit."""
    return partial(refusal_of_sealed, rich_bytes)
