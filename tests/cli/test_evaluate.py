import json
import re

import numpy as np
import pytest
from command import HEADER, SMALL, ok, records, refused, write_csv


def test_evaluate_tells_errors_on_any_table(work):
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    rows = records("out.csv")
    y, said = (np.array([float(row[name]) for row in rows]) for name in ("price", "price_predicted"))
    line = ok("evaluate", "m.atlas", "new.csv").output.splitlines()[-1].split()
    rmse, alone = np.sqrt(((y - said) ** 2).mean()), y.std()
    expected = [np.abs(y - said).mean(), rmse, 1 - (rmse / alone) ** 2, alone]
    assert line[0] == "60"
    assert list(map(float, line[1:5])) == pytest.approx(expected, rel=1e-3)
    assert line[5].endswith("%")


def test_evaluate_compares_models_by_the_values_of_a_column(work):
    ok("update", "m.atlas", "new.csv", "-o", "later.atlas")
    found = json.loads(
        ok("evaluate", "m.atlas", "new.csv", "--by", "city", "--against", "later.atlas", "--json").output
    )
    first, second = found["models"]
    assert (found["target"], found["column"], first["model"]) == ("price", "city", "m.atlas")
    assert second["rmse"] < first["rmse"]
    assert [part["value"] for part in first["by"]] == ["Aarhus", "Bergen", "Cadiz"]
    squares = [part["rows"] * part["rmse"] ** 2 for part in first["by"]]
    assert sum(squares) == pytest.approx(first["rows"] * first["rmse"] ** 2)
    shown = ok("evaluate", "m.atlas", "new.csv", "--by", "city", "--against", "later.atlas").output
    assert re.search(r"\nlater\.atlas +Cadiz +\d+ +[\d.]+ ", shown)


def test_evaluate_of_classes(work):
    ok("fit", "homes.csv", "-t", "city", "-o", "c.atlas", *SMALL)
    found = json.loads(ok("evaluate", "c.atlas", "homes.csv", "--json").output)["models"][0]
    assert 0.3 < found["accuracy"] <= 1
    assert found["log_loss"] < found["log_loss_of_frequencies"] == pytest.approx(np.log(3), abs=0.05)
    assert 0.8 < found["inside"] <= 1


def test_evaluate_refuses_what_cannot_be_compared(work):
    ok("fit", "homes.csv", "-t", "age", "-o", "a.atlas", "--skip-missing", *SMALL)
    assert refused("evaluate", "m.atlas", "new.csv", "--against", "a.atlas") == (
        "the models predict 'price' and 'age'; compare models of the same target"
    )
    write_csv("many.csv", HEADER, [(k, k % 90, "Cadiz", "no", 1) for k in range(101)])
    assert refused("evaluate", "m.atlas", "many.csv", "--by", "size") == (
        "many.csv: column 'size' has more than 100 values; give one with fewer"
    )
