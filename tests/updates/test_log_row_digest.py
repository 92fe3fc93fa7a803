"""Digests of data."""

import numpy as np
import pandas as pd
import pytest

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, UpdateWarning, load, save, update
from atlas_splines.updates.log import RowDigest

FEW = {"density": 0, "terms": 1, "members": 1, "max_iter": 3, "features": 10, "random_state": 0}


def digest_of(*rows):
    digest = RowDigest()
    digest.add(*rows)
    return digest.text


def test_order_and_pieces_do_not_matter_and_everything_else_does():
    random = np.random.default_rng(0)
    X, y = random.random((50, 3)), random.random(50)
    whole, order = digest_of(X, y), random.permutation(50)
    assert digest_of(X[order], y[order]) == whole
    assert digest_of(X, y, np.ones(50)) == whole
    pieces = RowDigest()
    assert len(list(pieces.watching([(X[:20], y[:20]), (X[20:], y[20:])]))) == 2
    assert pieces.text == whole
    others = [(X[1:], y[1:]), (X, y[order]), (X, y, np.full(50, 2)), (np.vstack([X, X]), np.append(y, y))]
    assert len({whole, *(digest_of(*other) for other in others)}) == 5


def test_missing_values_and_zeros_have_one_hash():
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert digest_of([[np.nan, 0.0]], [1.0]) == digest_of([[odd[0], -0.0]], [1.0])


def test_the_log_has_digest_author_message_and_settings(path):
    X, y = np.linspace(0, 1, 60)[:, None], np.linspace(0, 1, 60)
    model = AtlasRegressor(retention="pool", **FEW).fit(X, y)
    model.partial_fit(X[:30], y[:30], message="first", author="Ada")
    model.partial_fit(X[:30][::-1], y[:30][::-1], accept=True)
    save(model, path)
    one, two = load(path).update_log_
    assert (one.message, one.author, two.message) == ("first", "Ada", "")
    assert one.data == two.data == digest_of(X[:30], y[:30])
    assert one.settings["retention"] == "pool"
    assert one.settings["random_state"] is not None


def test_classes_are_numbers_or_hashes_of_their_names():
    X = np.linspace(0, 1, 40)[:, None]
    y = np.repeat(["a", "b"], 20)
    model = AtlasClassifier(**FEW).fit(X, y).partial_fit(pd.DataFrame(X).to_numpy(), y)
    assert model.update_log_[0].data == digest_of(X, y) != digest_of(X, np.repeat(["a", "c"], 20))
    flags = AtlasClassifier(**FEW).fit(X, y == "a").partial_fit(X, y == "a")
    assert flags.update_log_[0].data == digest_of(X, np.repeat([1, 0], 20))


def test_a_seed_that_was_not_given_is_noted():
    model = Atlas(inputs=1, density=1)
    done = update(model, [[0.5], [0.6]], [1.0, 1.0], epochs=1)
    again = Atlas(inputs=1, density=1)
    update(again, [[0.5], [0.6]], [1.0, 1.0], epochs=1, random_state=done.settings["random_state"])
    assert model.fingerprint() == again.fingerprint()
    other = update(model, [[0.5]], [1.0], epochs=1, random_state=np.random.default_rng(0))
    assert "random_state" not in other.settings


@pytest.mark.parametrize(
    ("note", "error"), [("two\nlines", ValueError), ("x" * 1001, ValueError), (1, TypeError)]
)
def test_notes_are_one_line(note, error):
    with pytest.raises(error, match="message must be"):
        update(Atlas(inputs=1), [[0.5]], [1.0], message=note)


def test_rows_that_were_learned_are_not_learned_again():
    random = np.random.default_rng(0)
    X = random.random((90, 1))
    model = AtlasRegressor(retention="pool", **FEW).fit(X[:40], X[:40, 0])
    model.partial_fit(X[40:65], X[40:65, 0]).partial_fit(X[65:], X[65:, 0])
    before, hash_before = model.predict(X), model.model_.fingerprint()
    with pytest.warns(UpdateWarning, match="these rows are update 1, so nothing was learned") as told:
        model.partial_fit(X[40:65][::-1], X[40:65, 0][::-1])
    assert told[0].filename == __file__  # the line that called, not one of the library
    assert len(model.update_log_) == 2
    assert model.model_.fingerprint() == hash_before
    assert (model.predict(X) == before).all()
    model.partial_fit(X[40:65], X[40:65, 0], accept=True)
    assert len(model.update_log_) == 3


def test_rows_that_were_taken_back_or_forgotten_can_be_learned_again():
    X = np.random.default_rng(0).random((90, 1))
    model = AtlasRegressor(retention="pool", **FEW).fit(X[:40], X[:40, 0]).partial_fit(X[40:], X[40:, 0])
    model.revert(1).partial_fit(X[40:], X[40:, 0])
    assert [(done.kind, bool(done.reverted)) for done in model.update_log_] == [
        ("pool", True),
        ("revert", False),
        ("pool", False),
    ]
    model.forget(X[40:], X[40:, 0]).partial_fit(X[40:], X[40:, 0])
    assert [done.kind for done in model.update_log_[3:]] == ["forget", "pool"]


def test_a_few_rows_or_rows_all_alike_may_come_twice():
    X = np.random.default_rng(0).random((60, 1))
    model = AtlasRegressor(retention="pool", **FEW).fit(X[:40], X[:40, 0])
    for _ in range(2):
        model.partial_fit(X[40:41], X[40:41, 0])
        model.partial_fit(np.full((50, 1), 0.5), np.full(50, 0.5))
    assert len(model.update_log_) == 4
