"""Write the two tables of the README: prices of homes, and a year later prices in one city."""

import csv
from pathlib import Path

import numpy as np

CITIES = {"Bergen": 1.3, "Cadiz": 0.8, "Dublin": 1.6}
HERE = Path(__file__).parent


def main() -> None:
    random = np.random.default_rng(0)
    write("homes.csv", [home(random, (30, 200), (0, 90), list(CITIES)) for _ in range(400)])
    write("new_homes.csv", [home(random, (60, 100), (20, 50), ["Cadiz"], growth=1.4) for _ in range(150)])


def home(
    random: np.random.Generator,
    sizes: tuple[float, float],
    ages: tuple[float, float],
    cities: list[str],
    growth: float = 1.0,
) -> list[object]:
    """Size in square metres, age in years, city, garden (sometimes unknown), and price in thousands."""
    size, age, city = random.uniform(*sizes), random.uniform(*ages), str(random.choice(cities))
    has_garden = random.random() < 0.4
    price = growth * CITIES[city] * size * (1 + 0.3 * has_garden) * (1 - 0.006 * min(age, 60))
    garden = "" if random.random() < 0.1 else ("yes" if has_garden else "no")
    return [round(size, 1), round(age), city, garden, round(price + random.normal(0, 3), 1)]


def write(name: str, rows: list[list[object]]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf8") as file:
        csv.writer(file, lineterminator="\n").writerows([["size", "age", "city", "garden", "price"], *rows])


if __name__ == "__main__":
    main()
