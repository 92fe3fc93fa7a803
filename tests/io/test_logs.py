"""Long logs in files, and logs that were tampered with."""

import numpy as np
import pytest
from mutations import File, rich_model

from atlas_splines import Atlas, AtlasRegressor, Folded, load, save, train, update
from atlas_splines.model import log as records
from atlas_splines.model.atlas import commit, state_of
from atlas_splines.model.log import chain_of, count_of, gaps_in

FEW = {"density": 0, "terms": 1, "members": 1, "max_iter": 3, "features": 10, "random_state": 0}


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(records, "KEPT", 5)


def pooled(updates, retention="pool"):
    random = np.random.default_rng(0)
    X = random.random((60, 1))
    model = AtlasRegressor(retention=retention, max_rows=60, **FEW).fit(
        X, X[:, 0]
    )  # more rows do not grow it
    for _ in range(updates):
        X = random.random((8, 1))
        model.partial_fit(X, X[:, 0])
    return model


def test_a_long_log_is_saved_loaded_and_goes_on(few, path):
    model = pooled(12)
    save(model, path)
    twin = load(path)
    assert [record.id for record in twin.model_.updates] == [0, 8, 9, 10, 11, 12]
    folded, same = model.model_.updates[0], twin.update_log_[0]
    assert isinstance(same, Folded)
    assert vars(folded) == vars(same)
    assert chain_of(twin.model_.updates) == chain_of(model.model_.updates)
    X = np.linspace(0, 1, 8)[:, None]
    twin.partial_fit(X, X[:, 0])
    assert [record.id for record in twin.model_.updates] == [0, 9, 10, 11, 12, 13]
    assert count_of(twin.model_.updates) == 13
    assert gaps_in(twin.model_.updates) == []
    assert (twin.revert(13).predict(X) == model.predict(X)).all()


@pytest.mark.slow
def test_size_and_entries_of_a_file_stay_the_same_however_many_updates(few, path):
    sizes = []
    for updates in (20, 40):
        save(pooled(updates), path)
        sizes.append(path.stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 100  # digits of numbers


def test_updates_with_charts_can_be_taken_back_when_their_neighbours_are_folded(few, path):
    X = np.linspace(0.4, 0.6, 60)[:, None]
    model = Atlas(inputs=1, terms=1, density=1)
    before = model(X)
    first = update(model, X, np.ones(60), epochs=5, density=1, terms=1, random_state=0)
    charted = model(X)
    for number in range(2, 11):
        commit(
            model, state_of(model), records.Record(number, "none", first.time, 0, first.after, first.after)
        )
    save(model, path)
    twin = load(path)
    assert isinstance(twin.updates[0], Folded)
    assert twin.updates[1].id == first.id
    assert (twin(X) == charted).all()
    assert (twin.revert(first.id)(X) == before).all()
    save(twin, path)
    assert load(path).updates[1].reverted is not None


def test_what_has_no_entry_is_noted_as_a_gap(path):
    model = rich_model()
    save(model, path)  # it was extended, and an update was taken back
    gaps = File.open(path.read_bytes()).envelope["header"]["model"]["chain"]["gaps"]
    assert gaps == gaps_in(model.updates) != []
    train(model, np.random.default_rng(0).random((20, 2)), np.zeros(20), epochs=1)
    save(model, path)
    assert File.open(path.read_bytes()).envelope["header"]["model"]["chain"]["current"] is False
    assert load(path).fingerprint() == model.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["chart", "none", "auto"])
def test_an_extension_of_the_domain_does_not_break_the_chain(retention, path):
    model = pooled(2, retention)
    X = np.linspace(0.9, 1.6, 80)[:, None]
    before = model.model_.fingerprint()
    model.partial_fit(X, 5 + X[:, 0])
    model.partial_fit(X, 5 + X[:, 0])
    assert model.model_.updates[2].before == before
    assert gaps_in(model.model_.updates) == []
    save(model, path)
    chain = File.open(path.read_bytes()).envelope["header"]["model"]["chain"]
    assert (chain["gaps"], chain["current"]) == ([], True)


def test_padding_is_no_part_of_a_model(path):
    model = rich_model()
    before = model.fingerprint()
    state_of(model).table[:, 7:] = -0.0
    assert model.fingerprint() == before
    save(model, path)


WRONG_HASH = "its log does not have the hash it had, so an update was changed, added or left out"


def change(file, *keys, to):
    place = file.envelope["header"]["model"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda file: change(file, "updates", 3, "rows", to=7), WRONG_HASH),
        (lambda file: change(file, "updates", 3, "time", to="2020-01-01T00:00:00+00:00"), WRONG_HASH),
        (lambda file: change(file, "updates", 2, "kind", to="none"), WRONG_HASH),
        (lambda file: change(file, "updates", 1, "after", to="a" * 64), WRONG_HASH),
        (lambda file: file.envelope["header"]["model"]["updates"].pop(), WRONG_HASH),
        (lambda file: change(file, "updates", 7, "id", to=1000), WRONG_HASH),
        (lambda file: change(file, "chain", "hash", to="0" * 64), WRONG_HASH),
        (lambda file: change(file, "chain", "gaps", to=[]), "an update of its log does not begin with the model that the one before it left"),
        (lambda file: change(file, "chain", "current", to=True), "its coefficients are not those that its log ends with"),
        (lambda file: change(file, "chain", "current", to=1), "'current' of the chain of the log must be true or false, not 1"),
        (lambda file: change(file, "chain", to=[]), "the chain of the log must be a JSON object, not []"),
        (lambda file: file.envelope["header"]["model"].pop("chain"), "'chain' of 'model' of the header is missing"),
        (lambda file: file.envelope["header"]["model"]["updates"].reverse(), "tensor"),
    ],
)  # fmt: skip
def test_a_log_that_was_tampered_with_is_refused(edit, what, refusal_of_edit):
    assert refusal_of_edit(edit).startswith(what)


def test_coefficients_that_were_exchanged_are_noticed(path, refusal):
    save(pooled(2), path)
    file = File.open(path.read_bytes())
    file.values("model.table")[0] += 1
    assert refusal(file.seal()).startswith(
        "cannot be loaded: its coefficients are not those that its log ends with"
    )


@pytest.mark.parametrize(
    ("key", "to", "what"),
    [
        ("count", 0, "'count' of model.updates.0 must be at least 1, not 0"),
        ("last", 3, "'last' of model.updates.0 must be at least 7, not 3"),
        ("chain", "a" * 64, WRONG_HASH),
        ("after", "a" * 64, "an update of its log does not begin with the model that the one before it left"),
        ("since", "yesterday", "'since' of model.updates.0 must be a time, not 'yesterday'"),
        ("kind", "pool", "'kind' of model.updates.0 must be one of 'folded', not 'pool'"),
        ("id", 1, "'id' has no place in model.updates.0"),
    ],
)  # fmt: skip
def test_wrong_folded_entries_are_refused(key, to, what, few, path, refusal):
    save(pooled(12), path)
    file = File.open(path.read_bytes())
    change(file, "updates", 0, key, to=to)
    assert refusal(file.seal()).startswith(f"cannot be loaded: {what}")


def test_folded_entries_come_first_and_once(few, path, refusal):
    save(pooled(12), path)
    file = File.open(path.read_bytes())
    log = file.envelope["header"]["model"]["updates"]
    log.append(log[0])
    assert refusal(file.seal()).startswith("cannot be loaded: two of its updates have the same id")
