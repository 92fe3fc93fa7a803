from command import ok, refused


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
