"""An attack suite: wrong files, kills, full disks, readers during writes, threads, hostile tables.

python benchmarks/fuzz.py [--seconds 60] [--seed 0] [--only "wrong files"]

It prints how often what happened, and each failure with the case that repeats it; it ends with 1 if there was any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from attacks import Attack, WrongFiles, attacks

SECONDS = 1.0  # of processor time that a wrong file may cost at most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to attack, in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="name of the one attack to run")
    parser.add_argument("--case", type=int, help="number of the one case to run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        every = attacks(Path(folder), SECONDS)
        chosen = {name: attack for name, attack in every.items() if options.only in (None, name)}
        failures = sum(
            run(name, attack, options.seconds / len(chosen), options.seed, options.case)
            for name, attack in chosen.items()
        )
    print(f"{failures} failures")
    return 1 if failures else 0


def run(name: str, attack: Attack, seconds: float, seed: int, case: int | None) -> int:
    """Attack for some time, or with one case; print what happened, and return how often it failed."""
    outcomes, failures, number, end = Counter[str](), 0, case or 0, time.monotonic() + seconds
    while True:
        try:
            outcomes[attack(Random(f"{seed}/{number}"))] += 1
        except Exception as error:  # whatever it is, it is a failure, and is told
            failures += 1
            print(f"FAILED: --only {name!r} --seed {seed} --case {number}: {type(error).__name__}: {error}")
            if case is not None:
                traceback.print_exc()
        number += 1
        if case is not None or time.monotonic() > end:
            break
    for outcome, count in sorted(outcomes.items()):
        print(f"{name:22} {outcome:50} {count:7,}", flush=True)
    if isinstance(attack, WrongFiles):
        worst, most = (max(costs) for costs in zip(*attack.costs, strict=True))
        print(f"{name:22} worst {1000 * worst:.0f} ms, most {most:.1f} MB, while memory is traced")
    return failures


if __name__ == "__main__":
    sys.exit(main())
