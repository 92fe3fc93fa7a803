"""Tables as people have them, and what the command makes of them."""

import gzip
import json
import re
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from command import HEADER, SMALL, estimator_of, homes, ok, records, refused, write_csv
from frames import QUICK, homes_frame

from atlas_splines import AtlasRegressor, load, save


def shop_hours(days=range(60), layout="%Y-%m-%d %H:%M"):
    """Rows of a moment and of sales that depend on hour, weekday and a trend."""
    start = datetime(2024, 1, 1)
    moments = [start + timedelta(days=day, hours=hour) for day in days for hour in (8, 12, 16, 20)]
    return [
        (f"{moment:{layout}}", moment.hour + 10 * (moment.weekday() > 4) + 0.1 * (moment - start).days)
        for moment in moments
    ]


def test_dates_become_parts_of_the_calendar(work):
    write_csv("shop.csv", ["when", "sales"], shop_hours())
    output = ok("fit", "shop.csv", "--target", "sales", "-o", "s.atlas", *SMALL).output
    assert (
        "240 rows, target 'sales', numbers, from 0 columns of numbers, 0 of categories and 1 of dates.\n"
        in output
    )
    assert "when: a date, read as hour, weekday, trend; --date when=PARTS chooses others.\n" in output
    assert estimator_of("s.atlas").feature_names_in_.tolist() == ["when.hour", "when.weekday", "when.trend"]
    assert re.search(r"when.trend +number +-2.64\d+ to 62.80", ok("inspect", "s.atlas").output)
    write_csv("later.csv", ["when", "sales"], shop_hours(range(60, 80), layout="%Y-%m-%dT%H:%M:%SZ"))
    output = ok("update", "s.atlas", "later.csv").output
    assert "Domain: when.trend is now " in output
    stamps = [datetime(2024, 1, 10, 12), datetime(2024, 1, 13, 8), None]
    parquet.write_table(pa.table({"when": pa.array(stamps, pa.timestamp("s"))}), "rows.parquet")
    ok("predict", "s.atlas", "rows.parquet", "-o", "out.csv")
    predicted = [float(row["sales_predicted"]) for row in records("out.csv")]
    assert predicted[:2] == pytest.approx([12.9, 19.2], abs=3)
    write_csv("wrong.csv", ["when"], [["tomorrow"]])
    assert (
        refused("predict", "s.atlas", "wrong.csv")
        == "wrong.csv, row 1, column 'when': 'tomorrow' is not a date like 2024-12-31; correct it or leave it empty"
    )


def test_parts_of_dates_are_chosen(work):
    write_csv("shop.csv", ["when", "sales"], shop_hours(range(3), layout="%m/%d/%Y %I:%M %p"))
    fit_it = ["fit", "shop.csv", "-t", "sales", "-o", "s.atlas", *SMALL]
    assert refused(*fit_it) == (
        "shop.csv, column 'when': each date can be read with day or month first; say which, with "
        "--date when=day-first or --date when=month-first"
    )
    ok(*fit_it, "--date", "when=month-first,trend,hour", "--increasing", "when.trend")
    assert estimator_of("s.atlas").monotonic_cst == {"when.trend": 1}
    no_input = "shop.csv has no input column 'when' to go along; check its name"
    assert refused(*fit_it, "--date", "when=month-first", "--increasing", "when") == no_input
    assert estimator_of("s.atlas").feature_names_in_.tolist() == ["when.hour", "when.trend"]
    write_csv("new.csv", ["when", "sales"], [("2024-01-01", 5)])
    update = ok("update", "s.atlas", "new.csv", "--retention", "chart", "--dry-run").output
    assert "  when.hour   " in update
    assert "  when.trend  " in update
    wrong = "dates have no 'minute'; name some of hour, weekday, yearday, trend, day-first and month-first"
    assert refused(*fit_it, "--date", "when=minute") == wrong
    assert refused(*fit_it, "--date", "then=hour") == "shop.csv has no column 'then'; it has 'when', 'sales'"
    assert (
        refused(*fit_it, "--date", "when", "--category", "when")
        == "--date when and --category when exclude each other; give one of them"
    )


def test_booleans_and_categories_of_a_data_frame(work):
    pandas = pytest.importorskip("pandas")
    shops = np.arange(120) % 3
    frame = pandas.DataFrame(
        {"open": shops > 0, "shop": pandas.Categorical(shops * 10), "kind": pandas.Categorical(shops % 2)},
        index=np.arange(120)[::-1],
    )
    frame.assign(sales=1.0 * shops).to_parquet("f.parquet")
    output = ok("fit", "f.parquet", "-t", "sales", "-o", "f.atlas", *SMALL).output
    assert "numbers, from 0 columns of numbers and 3 of categories." in output
    names = ["open", "shop=0", "shop=10", "shop=20", "kind"]
    assert estimator_of("f.atlas").feature_names_in_.tolist() == names  # and no index
    result = ok("predict", "f.atlas", "f.parquet", "-o", "out.parquet")
    assert result.stderr == "120 rows predicted, written to out.parquet.\n"
    assert parquet.read_table("out.parquet")["__index_level_0__"].to_pylist() == frame.index.tolist()
    write_csv("f.csv", ["open", "shop", "kind"], [("TRUE", "10.0", 1), ("false", 0, "0")])
    ok("predict", "f.atlas", "f.csv", "-o", "out.csv")
    assert [float(row["sales_predicted"]) for row in records("out.csv")] == pytest.approx([1, 0], abs=0.1)
    assert "3 classes" in ok("fit", "f.parquet", "-t", "shop", "-o", "c.atlas", *SMALL).output
    assert estimator_of("c.atlas").classes_.tolist() == [0, 10, 20]


@pytest.mark.slow
def test_the_command_and_frames_in_python_say_the_same(work):
    frame, price = homes_frame()
    frame = frame.drop(columns="kind")  # Parquet has no members of enumerations
    new = frame[:40].assign(city="Dover", street="new street")
    for name, rows in (("homes", frame), ("new", new)):
        rows.assign(price=price).to_parquet(f"{name}.parquet")
    ok("fit", "homes.parquet", "-t", "price", "-o", "c.atlas", *SMALL)
    model = AtlasRegressor(members=1, terms=2, density=1, missing="learn", random_state=0).fit(frame, price)
    save(model, "m.atlas")
    assert (load("m.atlas").predict(frame) == model.predict(frame)).all()

    def predicted(path, rows):
        ok("predict", path, rows, "-o", "out.parquet", "--force")
        return parquet.read_table("out.parquet")["price_predicted"].to_numpy()

    assert (predicted("c.atlas", "homes.parquet") == model.predict(frame)).all()
    assert (predicted("m.atlas", "homes.parquet") == model.predict(frame)).all()
    assert "city          category  3: 'Aarhus', 'Bergen', 'Cadiz'" in ok("inspect", "m.atlas").output
    for path in ("c.atlas", "m.atlas"):
        assert (
            "New in column 'city': 'Dover', known as the mean of all until its rows are learned."
            in ok("update", path, "new.parquet").output
        )
    model.partial_fit(new, price[:40])
    for path in ("c.atlas", "m.atlas"):
        assert (predicted(path, "new.parquet") == model.predict(new)).all()
    assert not load("c.atlas").encoding_.of_frame
    loaded = load("m.atlas")  # an estimator for frames, also after the command has changed it
    assert (loaded.predict(new) == model.predict(new)).all()
    assert loaded.encoding_ == model.encoding_
    assert "m.atlas and c.atlas are the same function, to the bit." in ok("diff", "m.atlas", "c.atlas").output
    two = AtlasRegressor(**QUICK).fit(frame, np.column_stack([price, -price]))
    save(two, "two.atlas")
    assert (
        refused("predict", "two.atlas", "new.parquet", "-o", "-")
        == "two.atlas has 2 targets, and atlas knows one; use it in Python"
    )


@pytest.mark.slow
def test_a_dialect_is_told_once(work):
    rows = [f"{k},5  ?  {'?' if k % 9 == 5 else k % 4} {2 * k},0" for k in range(60)]
    (work / "t.txt").write_text("\n".join(rows) + "\n")
    told = ["--no-header", "--separator", "blank", "--na", "?", "--na", "-", "--decimal", ","]
    output = ok("fit", "t.txt", "--target", "4", "--ignore", "2,3", "-o", "t.atlas", *told, *SMALL).output
    assert "t.txt: 60 rows, target '4', numbers, from 1 column of numbers and 0 of categories." in output
    ok("fit", "t.txt", "--target", "4", "--ignore", "2", "-o", "t.atlas", *told, *SMALL)
    assert estimator_of("t.atlas").feature_names_in_.tolist() == ["1", "3"]
    (work / "new.txt").write_text("3,5 ? 1\n")
    ok("predict", "t.atlas", "new.txt", "-o", "out.csv")
    (row,) = records("out.csv")
    assert [row["1"], row["2"], row["3"]] == ["3,5", "?", "1"]
    assert float(row["4_predicted"]) == pytest.approx(6, abs=1)
    assert "t.txt: 60 rows, all of them learned." in ok("update", "t.atlas", "t.txt").output
    write_csv("plain.csv", ["1", "3", "4"], [(3.5, 1, 6), ("x", 1, 8)])
    plain = ["--header", "--separator", ",", "--decimal", "."]
    ok("predict", "t.atlas", "plain.csv", "-o", "out.csv", *plain, "--na", "x")
    assert len(records("out.csv")) == 2
    says = "plain.csv, row 2, column '1': 'x' is not a number; correct it, leave it empty, or add --na 'x' if it stands for a missing value"
    assert refused("update", "t.atlas", "plain.csv", *plain) == says


def test_a_first_row_that_looks_like_data_is_pointed_out(work):
    (work / "t.csv").write_text("".join(f"{k},{k % 7 + 1},{k / 2 + 0.25}\n" for k in range(50)))
    output = ok("fit", "t.csv", "--target", "0.25", "-o", "t.atlas", *SMALL).output
    line = "t.csv: the first row, taken as names, looks like data; if it is, add --no-header.\n"
    assert output.startswith(line)
    assert (
        refused("fit", "t.csv", "--target", "3", "-o", "t.atlas", *SMALL)
        == "t.csv has no column '3'; it has '0', '1', '0.25'; if its first row is data, add --no-header"
    )
    assert "50 rows" in ok("fit", "t.csv", "--target", "3", "--no-header", "-o", "t.atlas", *SMALL).output


@pytest.mark.slow
def test_several_files_are_learned_as_one(work):
    rows = homes(120)
    (work / "data").mkdir()
    for k in range(3):
        write_csv(work / "data" / f"{k}.csv", HEADER, rows[40 * k : 40 * k + 40])
    (work / "zipped.csv.gz").write_bytes(gzip.compress((work / "homes.csv").read_bytes()))
    for name in ("data", "data/*.csv", "zipped.csv.gz"):
        output = ok("fit", name, "-t", "price", "-o", "a.atlas", *SMALL).output
        assert output.startswith(f"{name}: 120 rows, target 'price'")
        assert (work / "a.atlas").read_bytes() == (work / "m.atlas").read_bytes()
    lines = [
        json.dumps(dict(zip(HEADER, [float(row[0]), *row[1:4], float(row[4])], strict=True)), default=int)
        for row in rows
    ]
    (work / "homes.jsonl").write_text("\n".join(lines).replace('""', "null"))
    ok("fit", "homes.jsonl", "-t", "price", "-o", "a.atlas", *SMALL)
    assert (work / "a.atlas").read_bytes() == (work / "m.atlas").read_bytes()
    ok("predict", "m.atlas", "data", "-o", "out.csv")
    assert len(records("out.csv")) == 120
    ok("update", "m.atlas", "data/[01].csv")
    assert estimator_of("m.atlas").update_log_[-1].rows == 80
    assert refused("predict", "m.atlas", "data", "-o", "out.csv.gz") == (
        "out.csv.gz cannot be written: tables are not compressed; leave out .gz"
    )


@pytest.mark.slow
def test_a_sheet_of_excel_is_learned_and_predicted(work):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    pandas.read_csv("homes.csv").to_excel("homes.xlsx", index=False)
    output = ok("fit", "homes.xlsx", "-t", "price", "-o", "a.atlas", *SMALL).output
    assert output.startswith(
        "homes.xlsx: 120 rows, target 'price', numbers, from 2 columns of numbers and 2 of"
    )
    for data in ("homes.xlsx", "homes.csv"):
        ok("predict", "a.atlas", data, "-o", f"{data}.csv")
    predicted = [
        [float(row["price_predicted"]) for row in records(f"homes.{end}.csv")] for end in ("xlsx", "csv")
    ]
    assert predicted[0] == predicted[1]


def test_columns_are_named_with_commas_between_them(work):
    ok("fit", "homes.csv", "-t", "price", "--ignore", "city, garden", "-o", "a.atlas", *SMALL)
    assert estimator_of("a.atlas").feature_names_in_.tolist() == ["size", "age"]
    ok(
        "fit",
        "homes.csv",
        "-t",
        "price",
        "--columns",
        "size,garden",
        "--category",
        "garden,city",
        "-o",
        "a.atlas",
        *SMALL,
    )
    assert estimator_of("a.atlas").feature_names_in_.tolist() == ["size", "garden"]
    write_csv("comma.csv", ["a,b", "c", "y"], [(k, k, k) for k in range(50)])
    ok("fit", "comma.csv", "-t", "y", "--ignore", "a,b", "-o", "a.atlas", *SMALL)
    assert estimator_of("a.atlas").feature_names_in_.tolist() == ["c"]
    says = "homes.csv has no column 'zip'; it has 'size', 'age', 'city', 'garden', 'price'"
    assert refused("fit", "homes.csv", "-t", "price", "--ignore", "size,zip", *SMALL) == says


def test_an_index_without_a_name_in_a_text_is_no_column(work):
    rows = [(k, *row) for k, row in enumerate(homes())]
    write_csv("indexed.csv", ["", *HEADER], rows)
    fit = ok("fit", "indexed.csv", "-t", "price", "-o", "k.atlas", *SMALL)
    assert "from 2 columns of numbers and 2 of categories" in fit.stdout
    ok("update", "k.atlas", "new.csv")
    assert "not used" not in ok("predict", "k.atlas", "indexed.csv", "-o", "out.csv").stderr
    assert [row[""] for row in records("out.csv")] == [str(row[0]) for row in rows]
    assert estimator_of("k.atlas").n_features_in_ == estimator_of("m.atlas").n_features_in_


def with_marks(name, mark, column):
    """The homes, with a mark for what is missing in some rows of a column."""
    rows = [list(row) for row in homes()]
    for row in rows[::20]:
        row[HEADER.index(column)] = mark
    write_csv(name, HEADER, rows)


@pytest.mark.parametrize("mark", ["?", "-", "Null"])
def test_what_may_stand_for_missing_values_is_pointed_out(work, mark):
    with_marks("marked.csv", mark, "city")
    fit = ["fit", "marked.csv", "-t", "price", "-o", "k.atlas", "--force", *SMALL]
    says = f"is taken as a value like any other; if it stands for a missing one, add --na {mark!r}"
    assert ok(*fit).stderr == f"marked.csv, column 'city': {mark!r} {says}\n"
    assert ok(*fit, "--na", mark).stderr == ""


def test_marks_are_pointed_out_in_updates(work):
    with_marks("marked.csv", "?", "city")
    assert "column 'city': '?' is taken as a value" in ok("update", "m.atlas", "marked.csv").stderr
    assert "value" not in ok("update", "m.atlas", "marked.csv", "--dry-run").stderr  # it is known by now


def test_marks_are_pointed_out_as_classes_and_plus_and_minus_are_values(work):
    with_marks("marked.csv", "?", "city")
    classes = ok("fit", "marked.csv", "-t", "city", "-o", "c.atlas", *SMALL)
    assert "column 'city': '?' is taken as a value" in classes.stderr
    monotonic = [(k, "+-"[k % 2], k % 7) for k in range(40)]
    write_csv("signs.csv", ["a", "sign", "y"], monotonic)
    assert ok("fit", "signs.csv", "-t", "y", "-o", "s.atlas", *SMALL).stderr == ""


def test_numbers_and_marks_ask_for_na(work):
    with_marks("marked.csv", "?", "size")
    fit = ["fit", "marked.csv", "-t", "price", "-o", "k.atlas", *SMALL]
    way = "add --na '?' if it stands for a missing value"
    where = "marked.csv, row 1, column 'size': '?' is not a number"
    mixed = f"{where}, as other cells are; correct it, leave it empty, {way}, or add --category size"
    assert refused(*fit) == mixed
    assert refused("update", "m.atlas", "marked.csv") == f"{where}; correct it, leave it empty, or {way}"
    ok(*fit, "--na", "?")
    ok("update", "m.atlas", "marked.csv", "--na", "?")
