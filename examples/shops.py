"""Write the tables of the guide on dates and categories: customers of three shops, later of a fourth too."""

import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

SHOPS = {"Harbour": 1.0, "Market": 1.4, "Station": 1.8, "Airport": 2.4}
START = datetime(2024, 1, 1)
HERE = Path(__file__).parent


def main() -> None:
    random = np.random.default_rng(0)
    write("shops.csv", [row(random, (0, 500), ["Harbour", "Market", "Station"]) for _ in range(900)])
    write("new_shops.csv", [row(random, (500, 514), list(SHOPS)) for _ in range(150)])


def row(random: np.random.Generator, days: tuple[int, int], shops: list[str]) -> list[object]:
    """Time, shop, temperature (sometimes unknown), and customers in that hour."""
    when = START + timedelta(days=int(random.integers(*days)), hours=int(random.integers(8, 21)))
    shop = str(random.choice(shops))
    season = np.cos(2 * np.pi * (when.timetuple().tm_yday - 200) / 365)
    temperature = 12 + 9 * season + random.normal(0, 3)
    rush = 1 + np.exp(-(((when.hour - 13) / 2) ** 2)) + (0.5 if when.weekday() >= 5 else 0)
    customers = 20 * SHOPS[shop] * rush + temperature + random.normal(0, 3)
    known = "" if random.random() < 0.05 else f"{temperature:.1f}"
    return [f"{when:%Y-%m-%d %H:%M}", shop, known, round(customers)]


def write(name: str, rows: list[list[object]]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf8") as file:
        csv.writer(file, lineterminator="\n").writerows([["when", "shop", "temperature", "customers"], *rows])


if __name__ == "__main__":
    main()
