"""A model that forgets rows is the one that never saw them in its updates."""

import copy
import json

import level_rows
import numpy as np
import pytest
from branches import branch, changed_rows, charted, fitted, rows

from atlas_splines import Atlas, load, save, update
from atlas_splines.model.atlas import state_of
from atlas_splines.versions import forget, replay, version
from atlas_splines.versions.replay import same_model


def pool_of(model):
    return state_of(model.model_).pooled


def part(data, *cut):
    return tuple(column[slice(*cut)] for column in data)


@pytest.mark.parametrize("seeds", [(1, 2, 3), (1, 2, 3, 4, 5, 6, 7)])
def test_pooled_rows_are_forgotten_to_the_bit(seeds, path):
    first = fitted("pool", 0)
    model = branch(first, *seeds)
    before = version(model)
    clean, receipt = forget(model, *(column[::-1] for column in rows(12, 2)))
    never = branch(first, *(seed for seed in seeds if seed != 2))
    assert clean.model_.fingerprint() == never.model_.fingerprint()
    assert pool_of(clean).total == pool_of(never).total
    remaining = replay(never, [rows(12, seed) for seed in seeds if seed != 2], first=first)
    assert remaining.model.model_.fingerprint() == clean.model_.fingerprint()
    assert version(model) == before == receipt.before
    assert receipt.after == version(clean)
    assert receipt.taken[0].update == 2
    assert receipt.remaining == tuple(k for k in range(1, len(seeds) + 1) if k != 2)
    assert json.loads(json.dumps(receipt.to_json()))["rows"] == 12
    save(clean, path)
    assert version(load(path)) == version(clean)


def test_the_newest_update_is_taken_back():
    first = fitted("auto")
    clean, receipt = forget(branch(first, 7), *rows(12, 7))
    assert same_model(clean.model_, first.model_)
    assert receipt.taken[0].how == "reverted"


def test_some_rows_of_an_update_are_found_in_its_data():
    first = fitted("pool", 0)
    model = branch(first, 1, 2, 3)
    gone = part(rows(12, 2), 4, 9)
    with pytest.raises(
        ValueError, match="no update has exactly these rows; give the data of the updates that they belong to"
    ):
        forget(model, *gone)
    clean, receipt = forget(model, *gone, data=[rows(12, 2)])
    X, y = rows(12, 2)
    never = branch(first, 1)
    never.partial_fit(np.delete(X, slice(4, 9), 0), np.delete(y, slice(4, 9)))
    never.partial_fit(*rows(12, 3))
    assert clean.model_.fingerprint() == never.model_.fingerprint()
    assert pool_of(clean).total == pool_of(never).total
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(2, 5)]
    assert receipt.remaining == (1, 2, 3)
    with pytest.raises(ValueError, match="no update has exactly these rows"):
        forget(model, *rows(5, 77), data=[rows(12, 2)])


def test_rows_of_several_updates():
    first = fitted("pool", 0)
    model = branch(first, 1, 2, 3, 4)
    gone = [np.concatenate(columns) for columns in zip(part(rows(12, 1), 3), rows(12, 3), strict=True)]
    clean, receipt = forget(model, *gone, data=[rows(12, 1), rows(12, 3)])
    never = copy.deepcopy(first).partial_fit(*part(rows(12, 1), 3, None))
    assert clean.model_.fingerprint() == branch(never, 2, 4).model_.fingerprint()
    assert [(taken.update, taken.rows) for taken in receipt.taken] == [(1, 3), (3, 12)]
    assert receipt.remaining == (1, 2, 4)


@pytest.mark.parametrize("deeds", [[1, (0, 2), 3, (0, 4), 5], [(0, 1), 2, 3, 4, 5, 6]])
def test_with_all_data_every_update_is_made_again(deeds):
    first = fitted("auto", 0)
    model = branch(first, *deeds)
    data = [changed_rows(*deed) if isinstance(deed, tuple) else rows(12, deed) for deed in deeds]
    gone = part(data[0], 6)
    clean, receipt = forget(model, *gone, data=data, first=first)
    never = copy.deepcopy(first).partial_fit(*part(data[0], 6, None))
    assert same_model(clean.model_, branch(never, *deeds[1:]).model_)
    assert receipt.taken[0].how == "learned again without them"
    found, _ = forget(model, *gone, data=data)
    assert same_model(found.model_, clean.model_, error_model=False)
    whole, _ = forget(model, *data[0], data=data)
    assert whole.model_.fingerprint() == branch(first, *deeds[1:]).model_.fingerprint()
    assert [record.id for record in whole.update_log_] == list(range(1, len(deeds) + 1))
    with pytest.raises(ValueError, match="5 of the rows were in no update; check them"):
        forget(model, *rows(5, 77), data=data)


def test_charts_are_taken_back_or_learned_again(path):
    base = Atlas(inputs=2, density=0, terms=1)
    model = charted(base, 0, 1)
    X, y = changed_rows(0, 0, 40)
    replacing = all(chart.replaces for chart in model.charts)
    if replacing:
        assert forget(model, X, y)[0].fingerprint() == charted(base, 1).fingerprint()
    data = [changed_rows(corner, corner, 40) for corner in (0, 1)]
    clean, _ = forget(model, X[:10], y[:10], data=data)
    never = base.copy()
    update(never, X[10:], y[10:], epochs=1, density=0, terms=1, random_state=0)
    update(never, *data[1], epochs=1, density=0, terms=1, random_state=1)
    assert clean.fingerprint() == never.fingerprint()
    save(clean, path)


def test_what_needs_all_data_is_refused():
    first = fitted("auto", 0)
    model = branch(first, (0, 1), (0, 2))
    with pytest.raises(
        ValueError,
        match="rows of later updates have joined a chart of update 1; give the data of all updates",
    ):
        forget(model, *changed_rows(0, 1))
    with pytest.raises(
        ValueError, match="update 1 has opened charts for these and for other rows; give the data of all"
    ):
        forget(model, *part(changed_rows(0, 1), 5), data=[changed_rows(0, 1)])
    plain = Atlas(inputs=2, density=0, terms=1)
    X, y = rows(30, 0)
    update(plain, X, y, retention="none", epochs=1, random_state=0)
    with pytest.raises(ValueError, match=r"update 1 \(none\) has trained coefficients"):
        forget(plain, X, y)
    with pytest.raises(ValueError, match="there are no rows to forget"):
        forget(plain, np.zeros((0, 2)), np.zeros(0))


def test_a_receipt_says_what_it_does_not_cover():
    receipt = forget(branch(fitted("pool"), 5, 6), *rows(12, 5))[1]
    text = " ".join(receipt.not_covered)
    for word in ("initial fit", "backups", "exports", "log", "decisions"):
        assert word in text


def test_weights_are_a_part_of_a_row():
    first = copy.deepcopy(fitted("pool", 0))
    X, y = rows(12, 1)
    model = copy.deepcopy(first).partial_fit(X, y, sample_weight=np.full(12, 2.0)).partial_fit(*rows(12, 2))
    with pytest.raises(ValueError, match="no update has exactly these rows"):
        forget(model, X, y)
    clean, _ = forget(model, X, y, np.full(12, 2.0))
    assert clean.model_.fingerprint() == branch(first, 2).model_.fingerprint()


def test_what_a_level_had_learned_is_forgotten_to_the_bit(path):
    first = level_rows.fitted("pool")
    never, model = copy.deepcopy(first), copy.deepcopy(first)
    for seed in (1, 3):
        never.partial_fit(*level_rows.known_rows(60, seed))
    model.partial_fit(*level_rows.known_rows(60, 1)).partial_fit(*level_rows.new_rows(100, 2))
    model.partial_fit(*level_rows.known_rows(60, 3))
    assert level_rows.effect_of(model) == pytest.approx(level_rows.EFFECT, abs=0.2)
    clean, _ = forget(model, *level_rows.new_rows(100, 2))
    assert clean.model_.fingerprint() == never.model_.fingerprint()
    assert pool_of(clean).total == pool_of(never).total
    assert abs(level_rows.effect_of(clean)) < 0.6
    save(clean, path)
    assert version(load(path)) == version(clean)
