import numpy as np
import pyarrow as pa
import pytest

from atlas_splines.tables.sample import Reservoir


@pytest.mark.slow
def test_a_reservoir_is_a_uniform_sample():
    counts = np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir(10, seed)
        for start in range(0, 100, 7):
            numbers = np.arange(start, min(start + 7, 100))
            reservoir.add(pa.table({"value": numbers}), numbers)
        rows, numbers = reservoir.sample()
        assert rows["value"].to_pylist() == numbers.tolist()
        assert len(set(numbers)) == 10
        counts[numbers] += 1
    assert np.abs(counts - 40).max() < 5 * np.sqrt(40)  # each row 40 times on average


def test_a_reservoir_does_not_follow_data_of_the_same_seed():
    values = np.random.default_rng(0).random(10_000)
    reservoir = Reservoir(1000, seed=0)
    reservoir.add(pa.table({"value": values}), np.arange(10_000))
    assert abs(np.mean(reservoir.sample()[0]["value"].to_numpy()) - 0.5) < 0.05


def test_texts_stay_beside_their_rows():
    reservoir = Reservoir(10, seed=0)
    for start in range(0, 100, 20):
        numbers = np.arange(start, start + 20)
        reservoir.add(pa.table({"value": numbers}), numbers.astype(str))
    rows, texts = reservoir.sample()
    assert texts.tolist() == [str(value) for value in rows["value"].to_pylist()]
