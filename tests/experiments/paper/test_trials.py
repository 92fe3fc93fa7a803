import numpy as np
import pytest

from atlas_splines.experiments.paper.tasks import two_tasks
from atlas_splines.experiments.paper.trials import Settings, TrialKey, all_keys, appendix_data, run_trial

pytestmark = pytest.mark.slow

TINY = Settings(epochs=2, samples=200)


def test_a_trial_has_a_row_for_each_model_and_is_reproducible():
    key = TrialKey("main", 2, 0.3, 0)
    first, second = run_trial(key, TINY), run_trial(key, TINY)
    assert [row["model"] for row in first.rows] == ["finest", "all", "rehearsal", "charts"]
    for a, b in zip(first.rows, second.rows, strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == {
            k: v for k, v in b.items() if k != "seconds"
        }
        assert len(a["validation_1"]) == 2
        assert len(a["validation_2"]) == (2 if a["model"] in ("finest", "all") else 0)
        assert a["test_clean"] > 0
    assert first.pictures["main/charts_2"].shape == (100, 100)
    assert run_trial(key._replace(trial=1), TINY).pictures == {}


def test_learning_rates_and_noise_are_drawn_as_in_the_paper():
    draws = [two_tasks(1, 0.5, trial, samples=1) for trial in range(300)]
    rates, noises = np.array([d.learning_rate for d in draws]), np.array([d.noise for d in draws])
    assert rates.min() > 1e-6
    assert rates.max() < 0.01 + 1e-6
    assert rates.mean() == pytest.approx(0.005, rel=0.15)
    assert noises.mean() == pytest.approx(1, rel=0.2)
    assert all((d.box >= 0).all() and (d.box <= 1).all() for d in draws)


def test_an_appendix_trial_trains_expands_and_learns_a_hole():
    outcome = run_trial(TrialKey("C", 2, 0.1, 0), TINY)
    plain, charts = outcome.rows
    assert len(plain["validation_1"]) == 150
    assert len(plain["validation_2"]) == 6
    assert len(plain["stage_clean"]) == 5
    assert charts["model"] == "charts"
    data = appendix_data(TrialKey("C", 2, 0.1, 0), 500)
    assert (data.train[1].clean == 0).all()
    assert ((data.train[1].X > 0.45) & (data.train[1].X < 0.55)).all()
    assert np.std(data.test[0].noisy - data.test[0].clean) == pytest.approx(0.1, rel=0.15)


def test_a_whole_reproduction_has_all_cells():
    keys = all_keys(trials=30)
    assert len(set(keys)) == 27 * 30 + 4 * 30
    assert len({key.name for key in keys}) == len(keys)
