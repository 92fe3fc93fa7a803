import pytest

from atlas_splines.serve.pending import Pending, Waiting


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pending"


def waiting(name, size=1.0):
    return Waiting(name, {"size": size}, 2.0, [1.0, 3.0], "v0")


def test_the_newest_wait_and_survive(path):
    pending = Pending(path, 3, set())
    pending.keep([waiting(name) for name in "abcd"])
    assert (len(pending), [*pending.find([*"abcd"])]) == (3, ["b", "c", "d"])
    pending.drop(["c"])
    again = Pending(path, 3, set())
    assert [*again.find([*"abcd"])] == ["b", "d"]
    assert again.find(["b"])["b"] == waiting("b")
    assert [*Pending(path, 3, {"b"}).find([*"abcd"])] == ["d"]  # learned before the process was killed


def test_one_that_is_sent_again_counts_as_new(path):
    pending = Pending(path, 2, set())
    pending.keep([waiting("a"), waiting("b")])
    pending.keep([waiting("a")])
    pending.keep([waiting("c")])
    assert [*pending.find([*"abc"])] == ["a", "c"]


def test_the_file_stays_small(path):
    pending = Pending(path, 2, set())
    for k in range(500):
        pending.keep([waiting(f"n{k}")])
    assert len(path.read_text().splitlines()) <= 3 * 2 + 101
    assert [*Pending(path, 2, set()).find(["n498", "n499"])] == ["n498", "n499"]
