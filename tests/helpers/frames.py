"""Data frames with columns of every kind, as tests use them."""

from enum import Enum

import numpy as np
import pandas as pd

# As quick as a fit can be that still knows evidence.
QUICK = {"density": 1, "terms": 0, "members": 1, "features": 30, "missing": "learn", "random_state": 0}


class Kind(Enum):
    FLAT = "flat"
    HOUSE = "house"
    LOFT = 3


def homes_frame(rows=150, seed=0):
    """A frame with numbers, texts, truth values, categories that are numbers, members of an enumeration, dates and
    many categories, some of each missing, and prices.
    """
    random = np.random.default_rng(seed)
    kinds = np.array([Kind.FLAT, Kind.HOUSE, Kind.LOFT], object)[random.integers(0, 3, rows)]
    hours = random.integers(0, 500 * 24, rows)
    frame = pd.DataFrame(
        {
            "size": random.uniform(30, 200, rows),
            "city": random.choice(["Aarhus", "Bergen", "Cadiz"], rows),
            "garden": random.random(rows) > 0.5,
            "zone": pd.Categorical(random.choice([10, 20, 30, 40], rows)),
            "kind": kinds,
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(hours, unit="h"),
            "street": random.choice([f"street {k}" for k in range(25)], rows),
        }
    )
    noise = random.normal(0, 2, rows)
    price = 2 * frame["size"] + 60 * (frame["city"] == "Cadiz") + 20 * frame["garden"] + hours / 200 + noise
    for column, first in zip(frame.columns, range(0, 28, 4), strict=True):
        frame[column] = frame[column].mask(np.arange(rows) // 4 == first)
    return frame, price.rename("price")
