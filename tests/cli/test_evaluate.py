import json
import re

import numpy as np
import pytest
from command import HEADER, SMALL, homes, ok, records, refused, write_csv


def test_evaluate_tells_errors_on_any_table(work):
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    rows = records("out.csv")
    y, predicted = (np.array([float(row[name]) for row in rows]) for name in ("price", "price_predicted"))
    line = ok("evaluate", "m.atlas", "new.csv").output.splitlines()[-1].split()
    rmse, alone = np.sqrt(((y - predicted) ** 2).mean()), y.std()
    expected = [np.abs(y - predicted).mean(), rmse, 1 - (rmse / alone) ** 2, alone]
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


def test_evaluate_by_numbers_dates_and_what_is_missing(work):
    rows = [(*row[:4], f"2024-0{1 + k % 3}-01", row[4]) for k, row in enumerate(homes(60))]
    rows[0] = (rows[0][0], "7.0", *rows[0][2:])
    rows[1] = (rows[1][0], " 7", *rows[1][2:])
    write_csv("dated.csv", [*HEADER[:4], "day", "price"], rows)
    ages = json.loads(ok("evaluate", "m.atlas", "dated.csv", "--by", "age", "--json").output)
    values = [part["value"] for part in ages["models"][0]["by"]]
    assert values.count("7") == 1
    assert values == [*sorted(values[:-1], key=int), "missing"]
    days = ok("evaluate", "m.atlas", "dated.csv", "--by", "day").output
    assert [line.split()[:2] for line in days.splitlines()[2:]] == [
        *(["all", "60"], ["2024-01-01", "20"], ["2024-02-01", "20"], ["2024-03-01", "20"])
    ]


def test_evaluate_of_classes_tells_of_sets_and_of_groups_of_one_class(work):
    ok("fit", "homes.csv", "-t", "city", "-o", "c.atlas", *SMALL)
    shown = ok("evaluate", "c.atlas", "homes.csv", "--by", "city").output.splitlines()
    assert shown[1].endswith("frequencies alone  in 90% sets")
    assert [re.split("  +", line)[4] for line in shown[3:]] == ["0", "0", "0"]


def test_evaluate_compares_models_that_read_other_cells_as_missing(work):
    rows = [(row[0], row[1], "?" if k % 5 == 0 else row[2], *row[3:]) for k, row in enumerate(homes())]
    write_csv("marked.csv", HEADER, rows)
    fit = ["fit", "marked.csv", "-t", "price", *SMALL, "-o"]
    ok(*fit, "text.atlas")
    ok(*fit, "missing.atlas", "--na", "?")
    shown = ok("evaluate", "text.atlas", "marked.csv", "--by", "city", "--against", "missing.atlas").output
    groups = [line.split()[:3] for line in shown.splitlines()[4:]]
    assert ["text.atlas", "?", "24"] in groups
    assert ["missing.atlas", "missing", "24"] in groups
    assert len(groups) == 8


def test_evaluate_by_groups_outside_the_domain(work):
    ok("fit", "homes.csv", "-t", "price", "-o", "k.atlas", "--extrapolation", "error", *SMALL)
    write_csv("far.csv", HEADER, [(100, 40, "Cadiz", "no", 200), (9000, 40, "Bergen", "no", 200)])
    found = json.loads(ok("evaluate", "k.atlas", "far.csv", "--by", "city", "--json").output)["models"][0]
    assert [(part["value"], part["rows"]) for part in found["by"]] == [("Bergen", 0), ("Cadiz", 1)]
