import pytest

from atlas_splines.tables.dialects import PLAIN
from atlas_splines.tables.source import Source


@pytest.fixture
def table(tmp_path):
    """A source with that text."""

    def write(text, name="t.csv", dialect=PLAIN):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Source.of(path, name, dialect)

    return write
