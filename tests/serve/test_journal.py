import json
import os
from dataclasses import asdict

import pytest

from atlas_splines.serve import journal as module
from atlas_splines.serve.journal import Entry, Journal, appended, journal_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal"


def entry(key, version):
    return Entry(key, "digest", version, {"update": 1}, ("a",))


def test_an_entry_counts_once_the_file_had_its_version(path):
    journal = Journal(path, "v0")
    journal.intend(entry("one", "v1"))
    assert journal.find("one") is None
    assert Journal(path, "v0").find("one") is None  # the process was killed before the file was replaced
    journal.intend(entry("one", "v1"))
    assert Journal(path, "v1").find("one").reply == {"update": 1}  # or after that
    journal.intend(entry("two", "v2"))
    journal.confirm("v2")
    again = Journal(path, "v9")
    assert again.find("two").version == "v2"
    assert again.outcomes == {"a"}
    assert again.find("") is None


def test_a_line_that_was_cut_off_is_dropped(path):
    journal = Journal(path, "v0")
    for k in (1, 2):
        journal.intend(entry(f"k{k}", f"v{k}"))
        journal.confirm(f"v{k}")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "k3", "dig')
    again = Journal(path, "v2")
    assert [each.key for each in again.entries] == ["k1", "k2"]
    again.intend(entry("k4", "v4"))
    again.confirm("v4")
    assert [each.key for each in Journal(path, "v4").entries] == ["k1", "k2", "k4"]


@pytest.mark.parametrize("line", [b"[]\n", b"3\n", b"\xff\n", b'{"other": 1}\n'], ids=repr)
def test_lines_of_something_else_are_left_out(path, line):
    path.write_bytes(line)
    assert Journal(path, "v0").entries == []


def test_old_entries_go(path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 5)
    journal = Journal(path, "v0")
    for k in range(12):
        journal.intend(entry(f"k{k}", f"v{k}"))
        journal.confirm(f"v{k}")
    assert [each.key for each in Journal(path, "v11").entries] == [f"k{k}" for k in range(7, 12)]
    assert len(path.read_text().splitlines()) == 5


def test_nothing_is_left_of_lines_for_which_there_is_no_room(path, monkeypatch):
    appended(path, {"a": 1}, sync=True)
    before = path.read_bytes()
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        appended(path, {"b": 2}, {"c": 3}, sync=True)
    monkeypatch.setattr(os, "fsync", fsync)
    assert path.read_bytes() == before
    journal = Journal(path, "v0")
    journal.intend(entry("k", "v1"))
    assert json.loads(path.read_text().splitlines()[-1]) == json.loads(json.dumps(asdict(entry("k", "v1"))))


def test_it_lies_beside_the_file_that_a_link_leads_to(tmp_path):
    (tmp_path / "deep").mkdir()
    real = tmp_path / "deep" / "model.atlas"
    real.write_bytes(b"")
    link = tmp_path / "link.atlas"
    link.symlink_to(real)
    assert journal_of(link) == tmp_path.resolve() / "deep" / ".model.atlas.journal"
