"""An attack suite: wrong files, kills, full disks, readers during writes, threads, hostile tables.

python benchmarks/fuzz.py [--seconds 60] [--seed 0] [--only "wrong files"]
python benchmarks/fuzz.py --machine [--seconds 60] [--seed 0] [--case 7]

It prints how often what happened, and each failure with the case that repeats it; it ends with 1 if there was any.
With --machine it leads random lives of small models instead, as tests/test_lives.py does: each is a case.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
from attacks import Attack, WrongFiles, attacks
from lives import OPERATIONS, WEIGHTS, Life

STEPS = 15  # of a life
REPORT = 100  # lives between two reports
SECONDS = 1.0  # of processor time that a wrong file may cost at most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to attack, in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="name of the one attack to run")
    parser.add_argument("--case", type=int, help="number of the one case to run")
    parser.add_argument("--machine", action="store_true", help="lead random lives of small models")
    options = parser.parse_args()
    if options.machine:
        return lead_lives(options.seconds, options.seed, options.case)
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


def lead_lives(seconds: float, seed: int, case: int | None) -> int:
    """Lead random lives for some time, or one of them; return 1 if one failed."""
    outcomes, refusals, compared = Counter[str](), Counter[str](), Counter[str]()
    failures, number, end = 0, case or 0, time.monotonic() + seconds
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def report() -> None:
        for outcome, count in sorted(outcomes.items()):
            print(f"{outcome:50} {count:7,}")
        for sentence, count in refusals.most_common():
            print(f"refused {count:7,}  {sentence}")
        lives, steps = number - (case or 0), sum(outcomes.values())
        print(f"compared with a life from scratch: {dict(compared)}")
        print(f"{lives:,} lives, {steps:,} steps, {failures} failures", flush=True)

    try:
        while True:
            failures += not live(
                Random(f"{seed}/{number}"),
                f"--machine --seed {seed} --case {number}",
                outcomes,
                refusals,
                compared,
            )
            number += 1
            if case is not None or time.monotonic() > end:
                break
            if number % REPORT == 0:
                print(
                    f"after {number:,} lives: {sum(outcomes.values()):,} steps, {failures} failures",
                    flush=True,
                )
    finally:  # a run that is stopped counts too
        report()
    return 1 if failures else 0


def live(
    random: Random, name: str, outcomes: Counter[str], refusals: Counter[str], compared: Counter[str]
) -> bool:
    """Lead one life, and count what came of each step; tell of a failure, and of all that led to it."""
    life = None
    names = list(OPERATIONS)
    with tempfile.TemporaryDirectory() as folder:
        try:
            life = Life(random.randrange(2**31), Path(folder))
            for _ in range(STEPS):
                [operation] = random.choices(names, [WEIGHTS.get(name, 1) for name in names])
                outcomes[f"{operation}: {life.step(operation, random.randrange(2**31))}"] += 1
        except Exception as error:  # whatever it is, it is a failure, and is told
            print(f"FAILED: {name}: {type(error).__name__}: {error}")
            traceback.print_exc()
            print("\n".join([] if life is None else life.trace), flush=True)
            return False
        finally:
            if life is not None:
                refusals.update(
                    {re.sub(r"[\d,]*\d", "#", sentence): count for sentence, count in life.refusals.items()}
                )
                compared.update(life.compared)
    return True


if __name__ == "__main__":
    sys.exit(main())
