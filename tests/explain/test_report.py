"""A page about one row."""

import sys

import numpy as np
import pytest

from atlas_splines.explain.explanation import Blame, Explanation
from atlas_splines.explain.report import row_report

FOUND = Explanation(
    np.array([[3.0, -1.0]]), np.array([10.0]), np.array([["<b>", 4.0]], object), ["name", "age"]
)


def test_a_page_says_what_raises_and_lowers_a_prediction():
    page = row_report(FOUND, title="row 1")
    assert "<strong>12</strong>, which is 2 above the average of 10" in page
    assert "name: &lt;b&gt;" in page
    assert "<b>" not in page
    assert page.index("name:") < page.index("age:")
    assert "updates" not in page


def test_a_page_says_what_it_was_learned_from():
    rows = (np.array([[0.5, -0.2]]), np.array([[0, 2]]), np.array([[7, -1]]))
    blame = Blame(
        np.array([[1.5, 0.5]]), np.array([10.0]), np.array([0.0]), (0, 2), ("fit", "update 2"), *rows
    )
    page = row_report(FOUND, blame)
    assert "row 8 of the first data" in page
    assert "a row of update 2" in page


def test_a_page_is_of_one_row():
    with pytest.raises(ValueError, match="a report is of one row, and this explanation has 0; choose one"):
        row_report(FOUND[:0])


def test_an_explanation_for_shap(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="to_shap needs the package shap; install it"):
        FOUND.to_shap()
    import types

    fake = types.SimpleNamespace(Explanation=lambda **parts: parts)
    monkeypatch.setitem(sys.modules, "shap", fake)
    parts = FOUND.to_shap()
    assert parts["values"] is FOUND.values
    assert parts["feature_names"] == ["name", "age"]
