"""Rules that predictions keep: proved, broken by a counterexample, or neither."""

import copy

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.contracts import Rule, check_contract, read_contract

ROWS = {"members": 1, "random_state": 0, "features": 30}


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).random((250, 2))
    return AtlasRegressor(**ROWS).fit(X, 3 * X[:, 0] + np.sin(6 * X[:, 1]))


def check(model, before=None, **rule):
    (found,) = check_contract(model, [Rule("rule", **rule)], before)
    return found


def test_bounds(model):
    held = check(model, high=9.0, low=-9.0)
    assert held.status == "holds"
    assert "proved" in held.why
    broken = check(model, high=2.0)
    assert broken.status == "broken"
    row = [[broken.counterexample["column 0"], broken.counterexample["column 1"]]]
    assert model.predict(row)[0] > 2
    assert f"{model.predict(row)[0]:.3g}" in broken.why
    there = {"column 0": [0.0, 0.2], "column 1": 0.75}
    assert check(model, high=2.0, where=there).status == "holds"
    assert broken.line.startswith("broken: rule: ")


def test_what_can_be_neither_is_unproven(model):
    largest = model.range({}, seconds=10).high
    found = check(model, high=largest - 1e-4, seconds=0.0)
    assert found.status in ("unproven", "broken")
    far = AtlasRegressor(**ROWS).fit(*_many())
    found = check(far, high=far.predict(_many()[0]).max() + 0.5, seconds=0.05)
    assert found.status == "unproven"
    assert "no breach was found" in found.why


def _many():
    X = np.random.default_rng(0).random((150, 6))
    return X, X.sum(axis=1) + np.sin(9 * X[:, 0] * X[:, 1])


def test_directions(model):
    assert check(model, column="column 0", way=1).status == "unproven"
    broken = check(model, column="column 1", way=1)
    assert broken.status == "broken"
    assert "falls from" in broken.why
    X = np.random.default_rng(0).random((200, 2))
    rising = AtlasRegressor(**ROWS, monotonic_cst=[1, 0]).fit(X, X[:, 0] + X[:, 1] ** 2)
    assert check(rising, column="column 0", way=1).status == "holds"
    assert check(rising, column="column 0", way=-1).status == "broken"


def test_known_rows_that_move(model):
    new = copy.deepcopy(model)
    X = 0.3 * np.random.default_rng(1).random((60, 2))
    new.partial_fit(X, np.full(60, 8.0), accept=True)
    broken = check(new, model, max_change=0.5)
    assert broken.status == "broken"
    assert "a known row moves by" in broken.why
    assert check(model, model, max_change=0.05, is_share=True).status == "holds"
    assert check(new, None, max_change=0.5).status == "unproven"
    away = {"column 0": [0.7, 1.0]}
    assert check(new, model, max_change=1e-6, where=away).status == "holds"


def test_probabilities():
    X = np.random.default_rng(0).random((200, 2))
    model = AtlasClassifier(**ROWS).fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    assert check(model, high=0.4, where={"column 0": 0.1, "column 1": 0.5}).status == "holds"
    assert check(model, high=0.4, label="no", where={"column 0": 0.1, "column 1": 0.5}).status == "broken"


def test_a_file_of_rules(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(
        '[[rule]]\nname = "never below 0"\nmin = 0\n'
        '[[rule]]\nmax = 2e6\nwhere = { city = "Cadiz", size = [50, 80] }\n'
        '[[rule]]\nrises = "size"\n'
        '[[rule]]\nmax_change = "5%"\n'
    )
    rules = read_contract(path)
    assert [rule.name for rule in rules] == [
        "never below 0",
        "max 2e+06 where city = Cadiz, size = [50, 80]",
        "rises with size",
        "no known row moves more than 5%",
    ]
    assert (rules[3].max_change, rules[3].is_share) == (0.05, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"must have \[\[rule\]\] tables and nothing else"),
        ("[[rule]]\nmin = 0\nrises = 'a'", "must have one of min and max, rises, falls, or max_change"),
        ("[[rule]]\nlow = 0", "has 'low', which is not one of name, min"),
        ("[[rule]]\nmin = 'a'", "has 'a' as 'min'; give a number"),
        ("[[rule]]\nmin = 2\nmax = 1", "has a min above its max"),
        ("[[rule]]\nmax_change = 'much'", "has 'much' as 'max_change'"),
        ("[[rule]", "is not TOML"),
    ],
)
def test_files_that_are_none(tmp_path, text, says):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        read_contract(path)
    with pytest.raises(ValueError, match="does not exist; check the name"):
        read_contract(tmp_path / "none.toml")


def test_rules_about_what_the_model_does_not_have(model):
    with pytest.raises(ValueError, match="rule 'rule': box names 'size', which is not a column"):
        check(model, low=0.0, where={"size": 1})
    with pytest.raises(ValueError, match="rule 'rule': 'size' is not a column"):
        check(model, column="size", way=1)
