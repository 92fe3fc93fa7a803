"""The `atlas` command as tests run it, and a small table of homes."""

import csv
import sys

import numpy as np
from typer.testing import CliRunner

from atlas_splines import Atlas, load
from atlas_splines.cli.app import app
from atlas_splines.tables.source import opened

run = CliRunner().invoke


SMALL = ["--members", "1", "--terms", "2", "--density", "1"]


COMMAND = [sys.executable, "-c", "from atlas_splines.cli.app import app; app()"]


HEADER = ["size", "age", "city", "garden", "price"]


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows([header, *rows])


def read_csv(path):
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.reader(file))


def records(path):
    header, *rows = read_csv(path)
    return [dict(zip(header, row, strict=True)) for row in rows]


def homes(rows=120, low=30, high=200, factor=2.0, seed=0):
    """Rows of size, age (some missing), city, garden and price."""
    random = np.random.default_rng(seed)
    size, age = random.uniform(low, high, rows).round(1), random.integers(0, 90, rows)
    city, garden = random.choice(["Aarhus", "Bergen", "Cadiz"], rows), random.choice(["no", "yes"], rows)
    price = (factor * size - 0.5 * age + 60 * (city == "Cadiz") + 20 * (garden == "yes")).round(1)
    ages = ["" if k % 17 == 3 else age for k, age in enumerate(age)]
    return list(zip(size, ages, city, garden, price, strict=True))


def estimator_of(path):
    """The estimator in a file that the command wrote."""
    loaded = load(path)
    assert not isinstance(loaded, Atlas)
    return loaded


def inputs_of(path, data):
    """The rows of a small table, as the inputs of the estimator in a file."""
    with opened(data) as source:
        (piece,) = source.pieces()
        return load(path).encoding_.encode(piece)


def ok(*arguments, **options):
    result = run(app, list(map(str, arguments)), **options)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, **options):
    """The one line that a command fails with."""
    result = run(app, list(map(str, arguments)), **options)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()[-1:]
    assert "Traceback" not in result.stderr
    return line.removeprefix("atlas: ")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
