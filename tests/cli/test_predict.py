import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from command import (
    HEADER,
    SMALL,
    estimator_of,
    files,
    homes,
    inputs_of,
    ok,
    read_csv,
    records,
    refused,
    write_csv,
)

from atlas_splines import load, save
from atlas_splines.files.archive import read_archive, write_archive
from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.tables.encoded_rows import EncodedRows


def test_predict_keeps_the_cells_as_they_were(work):
    result = ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    assert result.stdout == ""
    assert result.stderr == "60 rows predicted, written to out.csv.\n"
    old = read_csv("new.csv")
    new = read_csv("out.csv")
    assert [row[:-1] for row in new] == old
    assert new[0][-1] == "price_predicted"
    X = np.array(
        [
            [
                float(r[0]),
                float(r[1] or "nan"),
                *(r[2] == c for c in ("Aarhus", "Bergen", "Cadiz")),
                r[3] == "yes",
            ]
            for r in old[1:]
        ]
    )
    model = estimator_of("m.atlas")
    expected = model.predict(EncodedRows(X.astype(float)))
    assert [float(row[-1]) for row in new[1:]] == expected.tolist()


@pytest.mark.slow
def test_csv_and_parquet_and_pipes_agree(work):
    ok("predict", "m.atlas", "new.csv", "-o", "a.csv")
    text = ok("predict", "m.atlas", "-", "-o", "-", input=(work / "new.csv").read_bytes()).stdout
    assert text == (work / "a.csv").read_text()
    typed = pa.csv.read_csv("new.csv")
    parquet.write_table(typed, "new.parquet")
    ok("predict", "m.atlas", "new.parquet", "-o", "b.parquet")
    table = parquet.read_table("b.parquet")
    assert table.schema.field("size").type == pa.float64()
    predicted = [float(row["price_predicted"]) for row in records("a.csv")]
    assert table["price_predicted"].to_pylist() == predicted
    for name, data in (("new.parquet", None), ("-", (work / "new.parquet").read_bytes()), ("new.csv", None)):
        ok("update", "m.atlas", name, "-o", f"from{name}.atlas", input=data)
    twins = [
        estimator_of(f"from{name}.atlas").model_.fingerprint() for name in ("new.parquet", "-", "new.csv")
    ]
    assert len(set(twins)) == 1
    ok("fit", "-", "--target", "price", "-o", "piped.atlas", *SMALL, input=(work / "homes.csv").read_bytes())
    assert (work / "piped.atlas").read_bytes() == (work / "m.atlas").read_bytes()


@pytest.mark.parametrize(
    ("header", "row", "says"),
    [
        (["size", "age", "city", "garden"], [50, 3, "Cadiz", "no"], "bad.csv has no column 'price'; it has 'size', 'age', 'city', 'garden'"),
        (HEADER, ["big", 3, "Cadiz", "no", 9], "bad.csv, row 61, column 'size': 'big' is not a number; correct it, leave it empty, or add --na 'big' if it stands for a missing value"),
        (HEADER, [50, 3, "Oslo", "no", 9], "bad.csv, row 61, column 'city': 'Oslo' was not there in fit, which had 'Aarhus', 'Bergen', 'Cadiz'; correct it, learn it with an update without --strict, or treat it as missing with --unknown missing"),
        (HEADER, [50, 3, "Cadiz", "no", ""], "bad.csv, row 61, column 'price': the target is missing; fill it in, or add --skip-missing"),
        (HEADER, [50, 3, "Cadiz", "no", "dear"], "bad.csv, row 61, column 'price': 'dear' is not a number; correct it, leave it empty, or add --na 'dear' if it stands for a missing value"),
        (HEADER, [50, 3, "Cadiz", "no", "inf"], "bad.csv, row 61, column 'price': the number is infinite; correct it or leave it empty"),
    ],
)  # fmt: skip
def test_rows_that_update_and_predict_refuse(work, header, row, says):
    write_csv("bad.csv", header, [*(r[: len(header)] for r in homes(60)), row])
    before = files(work)
    assert refused("update", "m.atlas", "bad.csv", *(["--strict"] if "'city'" in says else [])) == says
    if "'price'" not in says:
        assert refused("predict", "m.atlas", "bad.csv", "-o", "out.csv") == says
        assert refused("predict", "m.atlas", "bad.csv", "-o", "-") == says
    assert files(work) == before


def test_a_model_that_must_not_extrapolate(work):
    ok("fit", "homes.csv", "-t", "price", "--extrapolation", "error", "-o", "e.atlas", *SMALL)
    write_csv("far.csv", HEADER[:4], [(100, 3, "Cadiz", "no"), (900, 3, "Cadiz", "no")])
    says = refused("predict", "e.atlas", "far.csv", "-o", "out.csv")
    assert re.fullmatch(
        r"far.csv, row 2, column 'size': the model knows [\d.]+ to [\d.]+ only; teach it such rows with atlas update",
        says,
    )


def test_a_column_that_is_there_already(work):
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    assert (
        refused("predict", "m.atlas", "out.csv", "-o", "b.csv")
        == "out.csv has a column 'price_predicted' already; rename it"
    )


def test_a_table_of_another_model_is_refused(work):
    archive = read_archive("m.atlas")
    archive.header["estimator"]["table"]["columns"][0]["name"] = "length"
    write_archive("m.atlas", archive)
    assert "m.atlas cannot be loaded: its table does not go with its model" in refused(
        "predict", "m.atlas", "new.csv"
    )


def test_intervals_and_support_are_further_columns(work):
    options = ["--interval", "0.9", "--interval", "0.5", "--support"]
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv", *options)
    names = ["price_low_0.9", "price_high_0.9", "price_low_0.5", "price_high_0.5", "support"]
    assert read_csv("out.csv")[0] == [*HEADER, "price_predicted", *names]
    table = {name: np.array([float(row[name]) for row in records("out.csv")]) for name in names}
    model, X = estimator_of("m.atlas"), inputs_of("m.atlas", "new.csv")
    for coverage in (0.9, 0.5):
        low, high = model.predict_interval(X, coverage)
        assert (table[f"price_low_{coverage}"] == low).all()
        assert (table[f"price_high_{coverage}"] == high).all()
    assert (table["support"] == model.support(X)).all()
    text = ok("predict", "m.atlas", "new.csv", *options).stdout
    assert text == (work / "out.csv").read_text()


def test_intervals_come_in_pieces_too(work, streams):
    write_csv("many.csv", HEADER, homes(600, seed=3))
    ok("predict", "m.atlas", "many.csv", "-o", "many_out.csv", "--interval", "0.8", "--support")
    write_csv("last.csv", HEADER, homes(600, seed=3)[-30:])
    ok("predict", "m.atlas", "last.csv", "-o", "last_out.csv", "--interval", "0.8", "--support")
    assert read_csv("many_out.csv")[-30:] == read_csv("last_out.csv")[1:]


def test_sets_of_classes_are_a_column(work):
    ok("fit", "homes.csv", "--target", "city", "-o", "c.atlas", *SMALL)
    ok("predict", "c.atlas", "homes.csv", "-o", "out.csv", "--interval", "0.99")
    sets = [row["city_set_0.99"].split("|") for row in records("out.csv")]
    assert all(row["city_predicted"] in held for row, held in zip(records("out.csv"), sets, strict=True))
    assert np.mean([row["city"] in held for row, held in zip(records("out.csv"), sets, strict=True)]) > 0.97
    assert {len(held) for held in sets} > {1}
    assert refused("predict", "c.atlas", "out.csv", "-o", "b.csv", "--interval", "0.99") == (
        "out.csv has a column 'city_predicted' already; rename it"
    )


def test_what_cannot_be_told_of_doubt_is_refused(work):
    before = files(work)
    for coverage in ("90", "0", "1", "nan"):
        assert refused("predict", "m.atlas", "new.csv", "--interval", coverage) == (
            f"coverage must lie between 0 and 1, such as 0.9, not {float(coverage)}"
        )
    write_csv("has.csv", [*HEADER, "support"], [(*row, 1) for row in homes(5)])
    assert refused("predict", "m.atlas", "has.csv", "--support") == (
        "has.csv has a column 'support' already; rename it"
    )
    write_csv("has.csv", [*HEADER, "price_high_0.9"], [(*row, 1) for row in homes(5)])
    assert refused("predict", "m.atlas", "has.csv", "--interval", "0.9") == (
        "has.csv has a column 'price_high_0.9' already; rename it"
    )
    (work / "has.csv").unlink()
    assert files(work) == before


def test_a_model_that_does_not_know_its_errors_says_so(work):
    estimator = load("m.atlas")
    model = estimator.model_
    known = state_of(model)
    take_state(model, replace(known, pooled=None))
    save(estimator, "old.atlas")
    for wanted in (["--interval", "0.9"], ["--support"]):
        assert refused("predict", "old.atlas", "new.csv", *wanted) == (
            "old.atlas does not know how sure it is: make it again with atlas fit"
        )
        assert refused("export", "old.atlas", "old.onnx", *wanted) == (
            "old.atlas does not know how sure it is: make it again with atlas fit"
        )
    pool = known.pooled
    blind = replace(pool, error_model=replace(pool.error_model, data_density=None))
    take_state(model, replace(known, pooled=blind))
    save(estimator, "old.atlas")
    ok("predict", "old.atlas", "new.csv", "--interval", "0.9")
    assert refused("predict", "old.atlas", "new.csv", "--support") == (
        "old.atlas does not know where its first rows were: make it again with atlas fit"
    )
