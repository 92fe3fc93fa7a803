"""Ten thousand wrong files for the loader: each must be refused with a StorageError, quickly and in little memory.

python benchmarks/fuzz.py [cases] [seed]

Bytes that were changed without care must always be refused. Files that were edited and then sealed again, with the
right checksum, may happen to be valid: then what was loaded must predict, and survive being saved and loaded again.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np

from atlas_splines import StorageError, load, save

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from mutations import CARELESS, SEALED, outputs_of, stored_things

SECONDS, MEGABYTES = 1.0, 50.0  # what a wrong file may cost at most, in processor time


class Verdict(Exception):
    """A wrong file was not treated as it should be."""


def check_valid(loaded: object, path: Path) -> None:
    """What was loaded must be a model like any other."""
    predictions = outputs_of(loaded)
    save(loaded, path)
    if not np.array_equal(outputs_of(load(path)), predictions, equal_nan=True):
        raise Verdict("predictions changed when the loaded model was saved and loaded again")


def try_file(data: bytes, original: bytes, sealed: bool, path: Path) -> tuple[str, float, float]:
    """Load a file; return what happened, the seconds and the megabytes."""
    path.write_bytes(data)
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.process_time()
    model, outcome = None, "refused"
    try:
        model = load(path)
    except StorageError as error:
        if len(str(error)) > 1000 or str(path) not in str(error):
            raise Verdict(f"not a clear sentence: {error}") from error
    seconds = time.process_time() - start
    megabytes = (tracemalloc.get_traced_memory()[1] - before) / 2**20
    if model is not None:
        outcome = "loaded, as its bytes are unchanged" if data == original else "loaded, as the edit is valid"
        if data != original and not sealed:
            raise Verdict("bytes were changed, and nobody noticed")
        check_valid(model, path)
    if seconds > SECONDS or megabytes > MEGABYTES:
        raise Verdict(f"took {seconds:.2f} s and {megabytes:.0f} MB")
    return outcome, seconds, megabytes


def main(cases: int = 10_000, seed: int = 0) -> int:
    outcomes, failures, costs = Counter[tuple[str, str]](), 0, []
    with tempfile.TemporaryDirectory() as folder:
        path, originals = Path(folder) / "model.atlas", []
        for model in stored_things().values():
            save(model, path)
            originals.append(path.read_bytes())
            check_valid(load(path), path)  # compile before anything is measured
        tracemalloc.start()
        for case in range(cases):
            random = Random(f"{seed}/{case}")
            original, mutate = random.choice(originals), random.choice(CARELESS + SEALED)
            try:
                outcome, *cost = try_file(mutate(random, original), original, mutate in SEALED, path)
                outcomes[mutate.__name__, outcome] += 1
                costs.append(cost)
            except Exception as error:  # whatever it is, it is a failure of the loader, and is told
                failures += 1
                print(f"FAILED: case {case}, {mutate.__name__}: {type(error).__name__}: {error}")
    report(outcomes, failures, np.array(costs))
    return 1 if failures else 0


def report(outcomes: Counter[tuple[str, str]], failures: int, costs: np.ndarray) -> None:
    for (mutation, outcome), count in sorted(outcomes.items()):
        print(f"{mutation:15} {outcome:35} {count:6}")
    totals = Counter[str]()
    for (_, outcome), count in outcomes.items():
        totals[outcome] += count
    print("; ".join(f"{count:,} {outcome}" for outcome, count in totals.items()) + f"; {failures} failures")
    seconds, megabytes = costs.max(axis=0)
    print(f"worst time {1000 * seconds:.1f} ms, most memory {megabytes:.2f} MB, while memory is traced")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
