import pytest

from atlas_splines.serve.guard import Access, is_loopback
from atlas_splines.serve.requests import Problem

TOKEN = "0123456789abcdef"


def refusal(access, path="/predict", host="localhost:8000", **headers):
    """Status of the refusal of a request, or None."""
    found = [(name.encode(), value.encode("latin1")) for name, value in headers.items()]
    scope = {"path": path, "headers": [(b"host", host.encode()), *found]}
    try:
        access.check(scope)
    except Problem as problem:
        return problem.status
    return None


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "192.168.1.7", "api.example:443"]
)
def test_own_names_and_addresses_are_answered(host):
    assert refusal(Access(hosts=["api.example"]), host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example:8000",
        "127.0.0.1.evil.example",
        "a b",
        "localhost:x",
        "[::1",
    ],
)
def test_other_names_are_refused(host):
    assert refusal(Access(hosts=["api.example"]), host=host) == 403


def test_pages_of_other_sites_are_refused():
    assert refusal(Access(), origin="http://localhost:8000") is None
    for origin in (
        "http://evil.example",
        "http://localhost:9000",
        "null",
        "http://localhost:8000.evil.example",
    ):
        assert refusal(Access(), origin=origin) == 403


@pytest.mark.parametrize("path", ["/learn", "/revert/3", "/forget", "/outcomes"])
def test_changes_need_the_token_wherever_there_is_one(path):
    access = Access(TOKEN)
    assert refusal(Access(), path) is None
    assert refusal(access, path) == 401
    for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"bearer {TOKEN}", "Bearer \xff"):
        assert refusal(access, path, authorization=wrong) == 401
    assert refusal(access, path, authorization=f"Bearer {TOKEN}") is None
    assert refusal(access, "/predict") is None


def test_on_other_addresses_all_but_the_signs_of_life_need_it():
    access = Access(TOKEN, everywhere=True)
    for path in ("/predict", "/model", "/log", "/metrics", "/openapi.json", "/nowhere"):
        assert refusal(access, path) == 401
        assert refusal(access, path, authorization=f"Bearer {TOKEN}") is None
    for path in ("/health", "/ready", "/"):
        assert refusal(access, path) is None


def test_loopback_addresses():
    assert [*map(is_loopback, ["127.3.2.1", "::1", "0.0.0.0", "192.168.0.1", "example.org"])] == [
        *(True, True, False, False, False)
    ]
