"""Files of older versions in the words of the newest."""

import pytest

from atlas_splines.files.archive import VERSION, Archive
from atlas_splines.io.upgrade import upgrade

SUMS = {"memory": "sums", "max_rows": 100_000}  # what every file from before version 6 gets


def old(header):
    return Archive("regressor", header, {}, version=1)


def test_the_newest_version_is_left_alone():
    archive = Archive("model", {"model": {"charts": []}}, {})
    upgrade(archive)
    assert archive.header == {"model": {"charts": []}}
    assert archive.version == VERSION


def test_what_version_1_did_not_know_is_added():
    updates = [{"type": "update"}, {"type": "record"}]
    archive = old({"model": {"charts": [{"update": 1}], "updates": updates}})
    upgrade(archive)
    assert archive.version == VERSION
    assert archive.header["model"] == {
        "charts": [{"update": 1, "evidence": None}],
        "updates": [{"type": "update", "reason": ""}, {"type": "record"}],
        "chain": None,
        "evidence": None,
    }


def test_parameters_get_their_names_and_defaults():
    archive = old({"estimator": {"parameters": {"memory": "both", "terms": 2}}})
    upgrade(archive)
    parameters = {"retention": "both", "terms": 2, "features": 550, "half_life": None, "validation": "auto"}
    assert archive.header["estimator"]["parameters"] == parameters | {"quantile": 0.5} | SUMS


def test_a_fit_of_version_3_has_no_record():
    archive = Archive("regressor", {"estimator": {"parameters": {}}}, {}, version=3)
    upgrade(archive)
    assert archive.version == VERSION
    assert archive.header["estimator"] == {"parameters": {"quantile": 0.5} | SUMS, "fit": None}


def test_both_names_of_retention_stay_wrong():
    archive = old({"estimator": {"parameters": {"memory": "both", "retention": "chart"}}})
    upgrade(archive)
    assert {"memory", "retention"} <= archive.header["estimator"]["parameters"].keys()


@pytest.mark.parametrize("value", [None, 3, "x", [], [1], {}, {"charts": 1, "updates": {}, "parameters": []}])
def test_whatever_is_wrong_stays_wrong(value):
    archive = old({"model": value, "estimator": value})
    upgrade(archive)
    assert type(archive.header["model"]) is type(value)


def test_a_log_of_version_2_has_no_hash():
    archive = Archive("model", {"model": {"charts": [], "evidence": None}}, {}, version=2)
    upgrade(archive)
    assert archive.version == VERSION
    assert archive.header == {"model": {"charts": [], "evidence": None, "chain": None}}


def test_models_of_version_5_go_on_without_rows():
    archive = Archive("regressor", {"estimator": {"parameters": {"terms": 2}}}, {}, version=5)
    upgrade(archive)
    assert archive.version == VERSION
    assert archive.header["estimator"]["parameters"] == {"terms": 2, "quantile": 0.5} | SUMS


@pytest.mark.parametrize("name", ["memory", "max_rows"])
def test_parameters_that_version_5_did_not_have_stay_wrong(name):
    archive = Archive("regressor", {"estimator": {"parameters": {name: "rows"}}}, {}, version=5)
    upgrade(archive)
    assert archive.header["estimator"]["parameters"] == {name: "rows", "quantile": 0.5}
