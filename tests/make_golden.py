"""Write the files of tests/golden that every later version must load.

python tests/make_golden.py

Only for a new format version: a file that is there is never written again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mutations import outputs_of, stored_things

from atlas_splines import save
from atlas_splines.files.archive import VERSION
from atlas_splines.model.atlas import state_of

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    for name, thing in stored_things().items():
        path = GOLDEN / f"{name}_v{VERSION}.atlas"
        if path.exists():
            print(f"{path} is there already, and must load for ever: raise VERSION first")
            continue
        save(thing, path)
        inner = getattr(thing, "estimator", thing)
        table = state_of(getattr(inner, "model_", inner)).table
        np.savez(path.with_suffix(".npz"), outputs=outputs_of(thing), table=table)


if __name__ == "__main__":
    main()
