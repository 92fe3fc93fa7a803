import pytest
from command import HEADER, SMALL, homes, ok, refused, write_csv

from atlas_splines import load, save
from atlas_splines.model.atlas import state_of

TO_THE_BIT = "was taken back; every prediction is as it was before, to the bit.\n"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "city"])
@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_pooled_updates_are_taken_back_to_the_bit(target, retention, work):
    ok("fit", "homes.csv", "-t", target, "-o", "f.atlas", *SMALL)
    predicted = []
    for seed in (1, 2):
        write_csv("more.csv", HEADER, homes(60, seed=seed))
        predicted.append(ok("predict", "f.atlas", "homes.csv").stdout)
        assert "pooled" in ok("update", "f.atlas", "more.csv", "--retention", retention).output
        assert ok("predict", "f.atlas", "homes.csv").stdout != predicted[-1] or target == "city"
    for id in (2, 1):
        fingerprint = load("f.atlas").model_.updates[id - 1].before
        assert ok("revert", "f.atlas", id).output == f"Update {id} of f.atlas (60 rows) {TO_THE_BIT}"
        assert ok("predict", "f.atlas", "homes.csv").stdout == predicted.pop()
        assert load("f.atlas").model_.fingerprint() == fingerprint


def test_revert_says_so_if_something_else_has_changed(work):
    ok("update", "m.atlas", "new.csv", "--retention", "chart")
    loaded = load("m.atlas")
    state_of(loaded.model_).table[0] += 1
    save(loaded, "m.atlas")
    output = ok("revert", "m.atlas", "1").output
    assert output == "Update 1 of m.atlas (60 rows) was taken back; what else has changed since then stays.\n"


def test_revert_gives_the_old_predictions_back(work):
    before = ok("predict", "m.atlas", "new.csv").stdout
    ok("update", "m.atlas", "new.csv")
    assert ok("predict", "m.atlas", "new.csv").stdout != before
    output = ok("revert", "m.atlas", "1").output
    assert (
        output
        == "Update 1 of m.atlas (60 rows) was taken back; every prediction is as it was before, to the bit.\n"
    )
    assert ok("predict", "m.atlas", "new.csv").stdout == before
    assert (
        refused("revert", "m.atlas", "1")
        == "m.atlas: update 1 cannot be reverted; of this model's updates, none can"
    )
