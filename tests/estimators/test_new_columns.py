"""Columns that come with an update, and columns that no longer come."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines import versions as V
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.memory.random_effects import LATER
from atlas_splines.tables.encoding import Column, frame
from atlas_splines.tables.frames import encode_frame
from atlas_splines.tables.new_columns import NewColumn, column_of, decoded, encoded

SMALL = {"members": 1, "features": 40, "max_iter": 3, "random_state": 0, "missing": "learn"}
KINDS = ("number", "category", "date")


def rows(seed, count, new=(), names=("x", "y", "z"), coded=False):
    """A frame and targets that depend on all columns, of which some may not be there."""
    random = np.random.default_rng(seed)
    number, places = random.random(count), random.integers(len(names), size=count)
    moments = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 1000, count), unit="h")
    X = pd.DataFrame({"a": random.random(count), "b": random.random(count)})
    if coded:
        X["c"] = np.array(["u", "v"])[random.integers(2, size=count)]
    every = {"number": number, "category": np.array(names)[places], "date": moments}
    y = np.sin(5 * X.a) + X.b + 3 * number + places + moments.hour.to_numpy() / 8
    return X.assign(**{name: every[name] for name in new}), y.to_numpy()


def fitted(coded=False, **parameters):
    return AtlasRegressor(**SMALL | parameters).fit(*rows(0, 120, coded=coded))


def same(one, other, X):
    return bool((one.predict(X) == other.predict(X)).all())


def test_an_unknown_column_is_refused():
    model = fitted()
    before = V.version(model)
    with pytest.raises(
        ValueError, match=r"^X has the column 'number', which the model has not seen; learn it "
    ):
        model.partial_fit(*rows(1, 40, ["number"]))
    with pytest.raises(ValueError, match=r"the columns 'number', 'date', .* leave them out$"):
        model.partial_fit(*rows(1, 40, ["number", "date"]))
    assert V.version(model) == before
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows(1, 5, ["number"])[0])


def test_models_that_cannot_know_it():
    X, y = rows(1, 40, ["number"])
    with pytest.raises(ValueError, match=r"older rows are missing in the new column 'number'"):
        fitted(missing="error").partial_fit(X, y, new_columns=True)
    with pytest.raises(ValueError, match="does not keep all its rows"):
        fitted(memory="sums").partial_fit(X, y, new_columns=True)
    with pytest.raises(ValueError, match="max_rows=130"):
        fitted(max_rows=130).partial_fit(X, y, new_columns=True)
    late = fitted(missing="error").set_params(missing="learn")
    assert late.partial_fit(X, y, new_columns=True).column_names == ("a", "b", "number")


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("new", [[kind] for kind in KINDS] + [[*KINDS]])
def test_a_column_is_learned_and_reverted(new, coded, tmp_path):
    base = fitted(coded)
    model = copy.deepcopy(base)
    bringing = rows(1, 120, new, coded=coded)
    later = rows(2, 40, new, ("x", "q"), coded=coded)
    X, y = rows(3, 200, new, coded=coded)
    known = X[[*base.column_names]]
    model.partial_fit(*bringing, new_columns=True)
    errors = [np.abs(predicted - y).mean() for predicted in (model.predict(X), base.predict(known))]
    assert errors[0] < errors[1]
    assert model.column_names == (*base.column_names, *new)
    assert model.update_log_[0].reason.endswith("came: all rows were fitted again")
    assert model.update_log_[0].footprint.contains(X).all()
    model.partial_fit(*later)
    save(model, tmp_path / "model.atlas")
    loaded = load(tmp_path / "model.atlas")
    for copied in (loaded, copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert V.version(copied) == V.version(model)
        assert same(copied, model, X)
    # now the later update is the one that brings it
    expected = copy.deepcopy(base).partial_fit(*later, new_columns=True)
    assert same(loaded.revert(1), expected, X)
    assert loaded.column_names == expected.column_names
    assert same(loaded.revert(2), base, known)
    assert loaded.column_names == base.column_names
    assert hasattr(loaded, "encoding_") == coded


def test_all_columns_together_help():
    base, (X, y) = fitted(), rows(3, 200, KINDS)
    model = copy.deepcopy(base).partial_fit(*rows(1, 200, KINDS), new_columns=True)
    errors = [np.abs(predicted - y).mean() for predicted in (model.predict(X), base.predict(X[["a", "b"]]))]
    assert errors[0] < 0.4 * errors[1]


def test_rows_are_forgotten():
    base, X = fitted().partial_fit(*rows(4, 40)), rows(3, 50, ["category"])[0]
    table, y = rows(1, 80, ["category"])
    model = copy.deepcopy(base).partial_fit(table, y, new_columns=True)
    some = copy.deepcopy(model).forget(table[:20], y[:20])
    assert same(some, copy.deepcopy(base).partial_fit(table[20:], y[20:], new_columns=True), X)
    older = copy.deepcopy(model).forget(*rows(4, 40))  # which lack the column
    assert same(older, fitted().partial_fit(table, y, new_columns=True), X)
    none, receipt = V.forget(model, table, y)
    assert receipt.taken[0].rows == 80
    assert none.column_names == ("a", "b")
    assert same(none, base, X[["a", "b"]])


@pytest.mark.parametrize("coded", [False, True])
def test_branches_are_merged(coded, tmp_path):
    base, X = fitted(coded), rows(3, 50, ["category"], coded=coded)[0]
    ours = copy.deepcopy(base).partial_fit(*rows(1, 80, ["category"], coded=coded), new_columns=True)
    theirs = copy.deepcopy(base).partial_fit(*rows(2, 40, coded=coded))
    merged = V.merge(base, ours, theirs)
    assert V.version(merged) == V.version(V.merge(base, theirs, ours))
    expected = copy.deepcopy(ours).partial_fit(*rows(2, 40, coded=coded))
    assert same(merged, expected, X)
    V.patch(base, ours).save(tmp_path / "a.patch")
    assert V.version(V.apply(base, V.read_patch(tmp_path / "a.patch"))) == V.version(ours)
    assert V.replay(merged, [])


def test_branches_with_other_kinds_of_a_column():
    base, (X, y) = fitted(), rows(1, 60, ["number"])
    ours = copy.deepcopy(base).partial_fit(X, y, new_columns=True)
    texts = X.assign(number=np.where(X.number > 0.5, "high", "low"))
    theirs = copy.deepcopy(base).partial_fit(texts, y + 0.1, new_columns=True)
    with pytest.raises(ValueError, match=r"column 'number' holds (numbers|categories) in one update"):
        V.merge(base, ours, theirs)


def test_a_column_that_no_longer_comes():
    X, y = rows(1, 40)
    lacking = fitted().partial_fit(X[["b"]], y)
    filled = fitted().partial_fit(X.assign(a=np.nan), y)
    probes = rows(3, 50)[0]
    assert same(lacking, filled, probes)
    with pytest.raises(ValueError, match="X lacks the column 'a', which missing='error' refuses"):
        fitted(missing="error").partial_fit(X[["b"]], y)
    with pytest.raises(ValueError, match="yet now missing"):
        lacking.predict(X[["b"]])
    coded, (X, y) = fitted(True), rows(1, 40, coded=True)
    assert same(copy.deepcopy(coded).partial_fit(X.assign(c=None), y), coded.partial_fit(X[["a", "b"]], y), X)


def test_a_column_that_holds_nothing_is_none():
    X, y = rows(1, 40)
    model = fitted().partial_fit(X.assign(empty=np.nan), y, new_columns=True)
    assert model.column_names == ("a", "b")
    assert same(model, fitted().partial_fit(X, y), X)


def test_new_categories_before_a_new_column():
    random = np.random.default_rng(5)
    X, y = rows(1, 60, ["number"], coded=True)
    model = fitted(True).partial_fit(X.drop(columns="number").assign(c="w"), y + random.random(60))
    model.partial_fit(X, y, new_columns=True)
    assert np.isfinite(model.predict(X.assign(c="w"))).all()


def test_given_limits_and_directions():
    table, y = rows(1, 80, ["number"])
    model = fitted(monotonic_cst=[0, 1], domain=[(-1, 2), (-1, 2)]).partial_fit(table, y, new_columns=True)
    line = pd.DataFrame({"a": 0.5, "b": np.linspace(0, 1, 30), "number": 0.5})
    assert (np.diff(model.predict(line)) >= -1e-5).all()


def test_classes():
    def labelled(seed, count, new=()):
        X, y = rows(seed, count, new)
        return X, np.where(y > 5, "high", "low")

    base = AtlasClassifier(**SMALL).fit(*labelled(0, 150))
    model = copy.deepcopy(base).partial_fit(*labelled(1, 150, KINDS), new_columns=True)
    X, y = labelled(3, 200, KINDS)
    assert model.score(X, y) > base.score(X[["a", "b"]], y)
    model.revert(1)
    assert (model.predict_proba(X[["a", "b"]]) == base.predict_proba(X[["a", "b"]])).all()


def test_values_are_found_again_from_inputs():
    moments = np.array([1.7e15, np.nan, 1.6e15 + 1, -3e14])
    for came in (
        NewColumn("n", np.array([1.5, np.nan, -2.0])),
        NewColumn("k", np.array([1.0, np.nan, 0.0, 2.0]), ("p", "q", "r")),
        NewColumn("k", np.array([0.0, 1.0, np.nan]), ("p", "q")),
        NewColumn("k", np.arange(30.0), tuple(f"{k:02}" for k in range(30))),
        NewColumn("d", moments, None, "%Y-%m-%d"),
        NewColumn("h", np.array([3.6e9, 7.3e9, np.nan]), None, ""),
    ):
        column = column_of([came])
        found = decoded(column, np.column_stack(encoded(column, came, len(came.values))))
        assert np.array_equal(found.values, came.values, equal_nan=True)
        assert (found.categories, found.layout) == (came.categories, came.layout)
        missing = encoded(column, None, 3)
        assert all(
            np.array_equal(*pair, equal_nan=True) for pair in zip(missing, column.missing(3), strict=True)
        )


def test_categories_of_later_updates():
    first = NewColumn("k", np.array([0.0, 1.0]), ("p", "q"))
    column = column_of([first, NewColumn("k", np.array([0.0]), ("a",))])
    assert column == Column("k", ("p", "q"), others=("a",))
    mixed = NewColumn("k", np.array([1.0, 0.0]), ("a", "p"))
    inputs = np.column_stack(encoded(column, mixed, 2))
    assert decoded(column, inputs).categories == ("a", "p")


def test_a_domain_reaches_rows_that_lack_a_column():
    X, y = rows(1, 60, ["number"])
    model = fitted().partial_fit(X, y, new_columns=True)
    far = rows(2, 5)[0]
    assert model.reach(far).in_domain(far.assign(number=np.nan)).all()
    with pytest.raises(ValueError, match=r"^X lacks the column .*, which missing='error' refuses"):
        fitted(missing="error").reach(far.drop(columns=far.columns[0]))


# --- categories that came after the fit -----------------------------------------------------------------


def coded(seed, count, few=("u", "v"), many=range(22), two=("m", "n")):
    """Rows with columns of two categories, of some, and of more than have inputs of their own."""
    random = np.random.default_rng(seed)
    level, place = random.choice(many, size=count), random.integers(len(few), size=count)
    X = pd.DataFrame(
        {
            "a": random.random(count),
            "few": np.array(few)[place],
            "many": [f"level {k}" for k in level],
            "two": random.choice(two, size=count),
        }
    )
    return X, (np.sin(5 * X.a) + place + 0.1 * level).to_numpy()


FIRST = coded(0, 150, ("u", "v", "w"))
LATER_ROWS = [
    coded(1, 60, ("u", "q"), range(15, 26), ("m", "o")),
    coded(2, 60, ("p", "v", "q"), range(18, 30), ("k", "n")),
    coded(3, 60, ("u", "a"), range(30, 33)),
]


def others(model):
    return [column.others for column in model.encoding_.columns]


@pytest.mark.parametrize("gone", [0, 1])
def test_categories_go_with_the_rows_that_brought_them(gone):
    base = AtlasRegressor(**SMALL).fit(*FIRST)
    model, expected = copy.deepcopy(base), copy.deepcopy(base)
    for k, table in enumerate(LATER_ROWS):
        model.partial_fit(*table)
        if k != gone:
            expected.partial_fit(*table)
    forgotten = copy.deepcopy(model).forget(*LATER_ROWS[gone])
    model.revert(gone + 1)
    every = pd.concat([FIRST[0], *(X for X, _ in LATER_ROWS)])
    for each in (model, forgotten):
        assert others(each) == others(expected) != others(base)
        assert same(each, expected, every)
    assert model.model_.fingerprint() == expected.model_.fingerprint()
    assert same(pickle.loads(pickle.dumps(model)), expected, every)


def test_categories_that_no_row_has_are_not_in_the_file(tmp_path):
    model = AtlasRegressor(**SMALL).fit(*FIRST).partial_fit(*LATER_ROWS[0])
    save(model, tmp_path / "m.atlas")
    loaded = load(tmp_path / "m.atlas").partial_fit(*LATER_ROWS[1])
    model.partial_fit(*LATER_ROWS[1])
    assert others(loaded) == others(model)
    assert loaded.model_.fingerprint() == model.model_.fingerprint()
    X, y = LATER_ROWS[1]
    model.forget(X[X.few == "p"], y[X.few == "p"])
    assert others(model)[1] == ("q",)
    save(model.revert(1).revert(2), tmp_path / "m.atlas")
    assert others(load(tmp_path / "m.atlas")) == [(), (), (), ()]


def test_sides_with_categories_of_their_own_are_merged():
    base = AtlasRegressor(**SMALL).fit(*FIRST)
    ours = copy.deepcopy(base).partial_fit(*LATER_ROWS[0]).partial_fit(*LATER_ROWS[2])
    theirs = copy.deepcopy(base).partial_fit(*LATER_ROWS[1])
    merged = V.merge(base, ours, theirs)
    assert V.version(merged) == V.version(V.merge(base, theirs, ours))
    expected = copy.deepcopy(base)
    for k in (0, 2, 1):
        expected.partial_fit(*LATER_ROWS[k])
    assert others(merged) == others(expected)
    assert same(merged, expected, pd.concat([X for X, _ in LATER_ROWS]))
    assert V.version(V.apply(base, V.patch(base, merged))) == V.version(merged)
    assert V.replay(merged, LATER_ROWS)


def test_rows_that_were_learned_as_codes_keep_these():
    base = AtlasRegressor(**SMALL).fit(*FIRST)
    table = TableModel.of(base)
    inner, inputs = table.estimator, table.encoding.inputs
    X, y = coded(1, 60)
    numbers = frame(inputs, list(encode_frame(X, table.encoding, None).T)).to_pandas()
    numbers.loc[:9, "many"] = LATER + 3.0  # whoever gives codes has the names
    inner.partial_fit(numbers, y)
    assert inner.ledger_.is_coded
    later, ys = numbers.assign(many=LATER + 1.0), y + 1
    inner.partial_fit(later, ys)
    before = inner.predict(numbers)
    inner.partial_fit(numbers[:20], y[:20] + 0.1).revert(3)
    assert (inner.predict(numbers) == before).all()
    assert inner.forget(later, ys).ledger_.numbers == [1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"input": 1, "categories": None}, "has no categories"), ({"input": -1}, "'input' of"), ({"x": 1}, "x")],
)
def test_wrong_columns_of_files(change, sentence):
    column = NewColumn("few", np.array([0.0, np.nan]), ("q",), input=1)
    assert NewColumn.from_json(column.to_json(), column.values).input == 1
    with pytest.raises(ValueError, match=sentence):
        NewColumn.from_json(column.to_json() | change, column.values)


def test_a_file_with_categories_of_a_number_is_refused():
    model = AtlasRegressor(**SMALL).fit(*FIRST).partial_fit(*LATER_ROWS[2])
    own = model.ledger_.contributions[1]
    wrong = replace(own, columns=tuple(replace(each, input=0) for each in own.columns))
    with pytest.raises(ValueError, match="categories of a column that has none"):
        replace(model.ledger_, contributions=(model.ledger_.fit, wrong)).encoding_of(model.encoding_)
