import signal

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)  # a run tells the same tomorrow
settings.load_profile("repeatable")


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
