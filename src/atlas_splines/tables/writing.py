"""Atomic writing of tables, chunk by chunk."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from atlas_splines.files.writer import whole_file
from atlas_splines.tables.dialects import is_parquet
from atlas_splines.tables.wording import TableError, one_line, visible

__all__ = ["TableWriter", "read_scratch", "write_scratch"]


class TableWriter:
    r"""Writes a table chunk by chunk; the file appears at the end as a whole, or not at all.

    Parameters
    ----------
    name
        The file, CSV or Parquet by its ending, with tabs for .tsv, or "-" for CSV on standard output.

    Examples
    --------
    >>> path = tempfile.mkdtemp() + "/squares.csv"
    >>> with TableWriter(path) as writer:
    ...     writer.write(pa.table({"x": [1, 2], "square": [1, 4]}))
    >>> Path(path).read_text()
    'x,square\n1,1\n2,4\n'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_parquet = name != "-" and is_parquet(Path(name), name)
        if name.lower().endswith(".gz"):
            raise TableError(f"{name} cannot be written: tables are not compressed; leave out .gz")
        self.delimiter = "\t" if name.lower().endswith(".tsv") else ","

    def __enter__(self) -> TableWriter:
        self._open = contextlib.ExitStack()
        output = _whole_standard_output() if self.name == "-" else whole_file(self.name)
        try:
            self._file: IO[bytes] = self._open.enter_context(output)
        except OSError as error:
            raise TableError(
                f"{self.name} cannot be written: {error.strerror}; choose another place"
            ) from None
        self._parquet: Any = None
        self._has_header = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._naming():
            self._open.__exit__(kind, error, trace)

    def write(self, rows: pa.Table) -> None:
        """Append rows; all pieces have the same columns."""
        with self._naming():
            if self.is_parquet:
                self._write_parquet(rows)
            else:
                self._write_csv(rows)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the table in errors of writing; a pipe closed by its reader is not one."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            name = "standard output" if self.name == "-" else self.name
            why = error.strerror or one_line(error)
            raise TableError(
                f"{name} could not be written: {why}; make room or choose another place"
            ) from None

    def _write_parquet(self, rows: pa.Table) -> None:
        if self._parquet is None:
            self._parquet = self._open.enter_context(parquet.ParquetWriter(self._file, rows.schema))
        self._parquet.write_table(rows)

    def _write_csv(self, rows: pa.Table) -> None:
        if not self._has_header:
            self._write_lines([rows.column_names])
            self._has_header = True
        piece = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(include_header=False, quoting_style="none", delimiter=self.delimiter)
        try:
            arrow_csv.write_csv(rows, piece, options)
            self._file.write(piece.getvalue())
        except pa.ArrowInvalid:  # some cell needs quotes, and pyarrow would put them around every string
            columns = [column.to_pylist() for column in rows.columns]
            self._write_lines(zip(*columns, strict=True))

    def _write_lines(self, lines: Iterable[Sequence[Any]]) -> None:
        """Write lines with quotes around the cells that need them."""
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(lines)
        self._file.write(text.getvalue().encode())


def write_scratch(path: Path, tables: Iterable[pa.Table]) -> list[int]:
    """Spill tables of the same columns to a temporary file; returns the number of batches of each."""
    batches, writer = [], None
    with whole_file(path) as file, contextlib.ExitStack() as stack:
        for table in tables:
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_stream(file, table.schema))
            found = table.combine_chunks().to_batches()
            for batch in found:
                writer.write_batch(batch)
            batches.append(len(found))
    return batches


def read_scratch(path: Path, batches: Iterable[int]) -> Iterator[pa.Table]:
    """The tables of a temporary file, by their numbers of batches."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        for count in batches:
            found = [reader.read_next_batch() for _ in range(count)]
            yield pa.Table.from_batches(found, reader.schema)


@contextlib.contextmanager
def _whole_standard_output() -> Iterator[IO[bytes]]:
    """A file that goes to standard output once the block ends without an error."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        if sys.stdout.isatty():  # escaped for a terminal only; files and pipes get every byte as it is
            sys.stdout.buffer.writelines(visible(line[:-1].decode()).encode() + b"\n" for line in file)
        else:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
