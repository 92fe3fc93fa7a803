import contextlib
import errno
import io
import sys

import numpy as np
import pyarrow as pa
import pytest

from atlas_splines.files.writer import whole_file
from atlas_splines.tables import writing
from atlas_splines.tables.source import Source, TableError
from atlas_splines.tables.writing import TableWriter


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet"])
def test_tables_are_written_and_read_back(tmp_path, name):
    path = tmp_path / name
    with TableWriter(str(path)) as writer:
        for start in (0.0, 2.0):
            writer.write(pa.table({"x": [start, start + 1], 'a "b", c': ["plain", None]}))
            assert not path.exists()
        writer.write(pa.table({"x": [4.5], 'a "b", c': ['with "quotes", and\nlines']}))
    assert [file.name for file in tmp_path.iterdir()] == [name]
    if name == "out.tsv":
        assert path.read_bytes().startswith(b'x\t"a ""b"", c"\n0\tplain\n')
    source = Source.of(path)
    assert source.columns == ("x", 'a "b", c')
    rows = pa.concat_tables(piece.table for piece in source.pieces())
    assert [float(x) for x in rows["x"].to_pylist()] == [0, 1, 2, 3, 4.5]
    assert rows[1].to_pylist() == ["plain", None, "plain", None, 'with "quotes", and\nlines']


def write_half(name):
    with TableWriter(name) as writer:
        writer.write(pa.table({"x": [1.0]}))
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_failure_leaves_what_was_there(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_half(str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_that_cannot_be_written(tmp_path):
    with pytest.raises(
        TableError, match=r"out.csv cannot be written: No such file or directory; choose another"
    ):
        TableWriter(str(tmp_path / "nowhere" / "out.csv")).__enter__()
    with pytest.raises(TableError, match=r"out.doc must end in"):
        TableWriter(str(tmp_path / "out.doc"))


def test_standard_output_gets_all_or_nothing(capfdbinary):
    with TableWriter("-") as writer:
        writer.write(pa.table({"x": [1.0]}))
        assert capfdbinary.readouterr().out == b""
        writer.write(pa.table({"x": [2.0]}))
    assert capfdbinary.readouterr().out == b"x\n1\n2\n"
    with pytest.raises(KeyboardInterrupt):
        write_half("-")
    assert capfdbinary.readouterr().out == b""


def test_permissions_of_a_table_are_kept(tmp_path):
    path = tmp_path / "out.csv"
    path.touch()
    path.chmod(0o640)
    with TableWriter(str(path)) as writer:
        writer.write(pa.table({"x": [1.0]}))
    assert path.stat().st_mode & 0o777 == 0o640


class FullDisk(io.BytesIO):
    """A file of which only the first bytes find room."""

    def write(self, data):
        if self.tell() + len(data) > 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_full_disk_is_told_with_the_name_of_the_table(tmp_path, monkeypatch, name):
    @contextlib.contextmanager
    def full(path):
        with whole_file(path):
            yield FullDisk()

    monkeypatch.setattr(writing, "whole_file", full)
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(TableError) as caught, TableWriter(str(path)) as writer:
        writer.write(pa.table({"x": np.random.default_rng(0).random(1000)}))
    assert str(caught.value) == (
        f"{path} could not be written: No space left on device; make room or choose another place"
    )
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_standard_output_that_is_full(monkeypatch):
    class Output:
        buffer = FullDisk()

        @staticmethod
        def isatty():
            return False

    monkeypatch.setattr(sys, "stdout", Output)
    with (
        pytest.raises(TableError, match=r"^standard output could not be written: No space left on device"),
        TableWriter("-") as writer,
    ):
        writer.write(pa.table({"x": np.arange(100.0)}))


@pytest.mark.parametrize(("looked_at", "shown"), [(True, r"\u001b]0;x\u0007"), (False, "\x1b]0;x\x07")])
def test_what_would_steer_a_terminal(looked_at, shown, monkeypatch):
    """Somebody who looks at labels of another's model sees them escaped; files and programs get the bytes."""

    class Output(io.TextIOWrapper):
        def isatty(self):
            return looked_at

    seen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Output(seen, "utf8"))
    with TableWriter("-") as writer:
        writer.write(pa.table({"sold": ["yes\x1b]0;x\x07", "São"]}))
    assert seen.getvalue().decode() == f"sold\nyes{shown}\nSão\n"
    monkeypatch.undo()
