"""A table of results and images that are made up, so that every number is known."""

import numpy as np
import pandas as pd
import pytest

from atlas_splines.experiments.boxes import WIDTHS

MAIN_MODELS = ["finest", "all", "rehearsal", "charts"]


def row(experiment, inputs, width, trial, model, error, **more):
    """One row of the table, with curves that end at the error."""
    curve = list(error * np.linspace(2, 1, 5))
    trained = model in ("finest", "all")
    return {
        "experiment": experiment,
        "inputs": inputs,
        "width": width,
        "trial": trial,
        "model": model,
        "learning_rate": 0.005,
        "noise": 0.5 + 0.1 * trial,
        "training_1": curve,
        "validation_1": curve,
        "training_2": curve if trained else [],
        "validation_2": curve if trained else [],
        "task1_noisy": error,
        "task1_clean": error / 2,
        "test_noisy": error,
        "test_clean": error / 2,
        "test_inside": error / 4,
        "test_outside": error / 2,
        "stage_clean": [],
        "seconds": 1.0,
        **more,
    }


def main_rows(trials=2):
    """The guarantee's error follows 1 + 8(δ − δⁿ) exactly; other models are multiples of it."""
    factor = {"finest": 1.0, "all": 2.0, "rehearsal": 0.5, "charts": 0.25}
    return [
        row("main", n, width, trial, model, factor[model] * (1 + 8 * (width - width**n)))
        for n in (1, 2, 8)
        for width in WIDTHS
        for trial in range(trials)
        for model in MAIN_MODELS
    ]


def appendix_rows(trials=2):
    rows = []
    for letter in "ABCD":
        for trial in range(trials):
            for model, error in (("finest", 0.4), ("charts", 0.05)):
                curve = list(np.linspace(0.6, 0.1, 150))
                stages = [0.6, 0.4, 0.2, 0.05, 0.1]
                made = row(letter, 2, 0.1, trial, model, error, noise=0.1, stage_clean=stages)
                rows.append(made | {"training_1": curve, "validation_1": curve})
    return rows


def make_pictures():
    random = np.random.default_rng(0)
    names = ["target_1", "target_2"] + [f"{m}_{k}" for m in MAIN_MODELS for k in (1, 2)]
    pictures = {f"main/{name}": random.normal(size=(100, 100)) for name in names}
    pictures["main/box"] = np.array([[0.2, 0.5], [0.6, 0.9]])
    pictures["main/charts_2"] = pictures["main/finest_1"].copy()
    pictures["main/charts_2"][25:45, 65:85] += 1  # inside the box only
    stages = [f"stage_{k}" for k in range(5)]
    for letter in "ABCD":
        for name in ["target_1", "target_2", *stages, "finest_2", "charts_2"]:
            pictures[f"{letter}/{name}"] = random.normal(size=(100, 100))
    return pictures


@pytest.fixture(scope="session")
def results():
    return pd.DataFrame(main_rows() + appendix_rows())


@pytest.fixture(scope="session")
def pictures():
    return make_pictures()
