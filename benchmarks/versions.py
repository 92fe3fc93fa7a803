"""Version control of models in numbers: altered files that are found, and what patches and merges cost.

    python benchmarks/versions.py [--altered 10000] [--updates 10 1000]

Files are altered by flipped bits, cuts, splices and other lengths, or in their content with a checksum that is right again. Then, after so many
pooled updates: bytes of the patch of one more over bytes of the model, and seconds of processor time to merge two versions with an update
more each over those of a fit of all rows.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from atlas_splines import AtlasRegressor, save, versions

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
from mutations import CARELESS, SEALED, File, rich_model

ROWS = 20  # of an update
FIRST = 2000  # rows of the fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--altered", type=int, default=10_000, help="files to alter")
    parser.add_argument("--updates", type=int, nargs="*", default=[10, 1000], help="updates of a model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atlas"
        if options.altered:
            print(f"altered files found: {altered_found(path, options.altered):,} of {options.altered:,}")
        for retention in ("pool", "auto"):
            for updates in options.updates:
                print_costs(retention, updates, path)
        print_chart(path)


# --- altered files ------------------------------------------------------------------------------------------


def altered_found(path: Path, count: int) -> int:
    save(rich_model(), path)
    original, random, found = path.read_bytes(), Random(0), 0
    for _ in range(count):
        path.write_bytes(altered(original, random))
        found += not versions.verify(path)
    return found


def altered(original: bytes, random: Random) -> bytes:
    """The file after an alteration that is one: some edits put in what was there, or leave out all digests."""
    while True:
        data = random.choice((*CARELESS, *SEALED))(random, original)
        if data != original and content(data) != content(original) and b"parts" in data:
            return data


def content(data: bytes) -> object:
    """What a file says, without its checksum."""
    try:
        file = File.open(data)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return data
    predicted = {key: value for key, value in file.envelope.items() if key != "sha256"}
    return predicted, file.entries, bytes(file.body)


# --- what patches and merges cost ---------------------------------------------------------------------------


def rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.random((count, 4))
    return X, np.sin(6 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + 0.1 * random.normal(size=count)


def print_costs(retention: str, updates: int, path: Path) -> None:
    model = AtlasRegressor(retention=retention, random_state=0).fit(*rows(FIRST, 0))
    for number in range(1, updates + 1):
        model.partial_fit(*rows(ROWS, number))
    ours, theirs = (copy.deepcopy(model).partial_fit(*rows(ROWS, -seed)) for seed in (-10_001, -10_002))
    fix, patching = timed(lambda: versions.patch(model, ours))
    _, applying = timed(lambda: versions.apply(model, fix))
    _, merging = timed(lambda: versions.merge(model, ours, theirs))
    every = [rows(FIRST, 0), *(rows(ROWS, number) for number in range(1, updates + 1))]
    X, y = (np.concatenate(columns) for columns in zip(*every, strict=True))
    _, fitting = timed(lambda: AtlasRegressor(retention=retention, random_state=0).fit(X, y))
    small, whole = size_of(fix.save, path), size_of(lambda to: save(ours, to), path)
    print(
        f"{retention}, {updates:,} updates: patch {small:,} bytes ÷ model {whole:,} = {small / whole:.4f}; "
        f"merge {merging:.2f} s ÷ fit of all rows {fitting:.2f} s = {merging / fitting:.3f}; "
        f"patch made in {patching:.2f} s, applied in {applying:.2f} s"
    )


def print_chart(path: Path) -> None:
    model = AtlasRegressor(retention="chart", random_state=0).fit(*rows(FIRST, 0))
    X, y = rows(200, 1)
    later = copy.deepcopy(model).partial_fit(0.2 + 0.2 * X, y + 3)
    small = size_of(versions.patch(model, later).save, path)
    whole = size_of(lambda to: save(later, to), path)
    print(f"a chart: patch {small:,} bytes ÷ model {whole:,} = {small / whole:.4f}")


def timed(work: Callable[[], object]) -> tuple[object, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def size_of(write: Callable[[Path], None], path: Path) -> int:
    write(path)
    return path.stat().st_size


if __name__ == "__main__":
    main()
