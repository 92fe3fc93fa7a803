"""Write the files of tests/golden that every later version must load.

python tests/make_golden.py

Only for a new format version: a file that is there is never written again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mutations import rich_model, small_model

from atlas_splines import save
from atlas_splines.archives import VERSION

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    models = {
        "model": rich_model(),
        "model_float64": rich_model("float64", outputs=3),
        "model_small": small_model(),
    }
    for name, model in models.items():
        path = GOLDEN / f"{name}_v{VERSION}.atlas"
        if path.exists():
            raise SystemExit(f"{path} is there already, and must load for ever: raise VERSION first")
        low, high = model.domain.T
        points = low + (high - low) * np.random.default_rng(1).random((100, model.inputs))
        save(model, path)
        np.savez(path.with_suffix(".npz"), points=points, predictions=model(points), table=model.table)


if __name__ == "__main__":
    main()
