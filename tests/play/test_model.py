"""The page's arithmetic of models in files, compared with Python's in float64."""

import base64
from datetime import date
from pathlib import Path

import level_rows
import numpy as np
import pytest
from float64_arithmetic import evaluate, float64_arithmetic

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.model.atlas import state_of
from atlas_splines.play.bundle import PAGE
from atlas_splines.tables.dates import LAYOUTS, Calendar
from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.source import Source
from atlas_splines.updates.log import Update

GOLDEN = Path(__file__).parents[1] / "golden"
CLOSE = 1e-12  # in the scale of the target
CLOSE_LOCALLY = 1e-11  # of local terms: hundreds of weights that cancel are added up in another order
SUPPORT_CLOSE = 1e-6  # a readout of many features is solved, and two ways to solve it round differently

OPEN = "const model = await readModel(Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer);"
PREDICT = f"""async (file, rows) => {{
  {OPEN}
  const points = rows.map((row) => unitPoint(model.columns, Float64Array.from(row, (value) => value ?? NaN)));
  return points.map((point) => {{
    const {{ values, probabilities }} = predictionAt(model, point);
    const interval = model.doubt && intervalAt(model, point, 0.9);
    return {{ said: values ?? probabilities, interval, support: model.doubt?.support ? supportOf(model, point) : null }};
  }});
}}"""


@pytest.fixture(scope="module", autouse=True)
def opened(page):
    page.open(PAGE.as_uri() + "#tab=file")


def ask(page, function, *values):
    """What a function of the page's engine returns."""
    return page.script(f"return ({function})(...arguments)", *values)


def as_text(path):
    return base64.b64encode(path.read_bytes()).decode()


def rows_for(thing, count=12):
    """Rows in the domain and, for an estimator, a little beyond it, some with missing values."""
    random = np.random.default_rng(1)
    if isinstance(thing, Atlas):
        low, high = thing.domain.T
        return np.vstack([low, high, low + (high - low) * random.random((count, thing.inputs))])
    columns = thing.domain_
    units = 1.3 * random.random((count, len(columns.knots))) - 0.15
    X = np.stack([columns.to_raw(j, units[:, j]) for j in range(len(columns.knots))], axis=1)
    if thing.missing == "learn":
        X[::4, -1] = np.nan
    return X


def as_json(X):
    return [[None if np.isnan(value) else value for value in row] for row in X.tolist()]


def check_against_python(page, path):
    """Compare predictions, intervals or sets, and support."""
    thing = load(path)
    X = rows_for(thing)
    found = ask(page, PREDICT, as_text(path), as_json(X))
    predicted = np.array([row["said"] for row in found])
    if isinstance(thing, Atlas):
        np.testing.assert_allclose(
            predicted, evaluate(state_of(thing), X.astype(thing.dtype)), rtol=0, atol=CLOSE
        )
        return
    X = X if not hasattr(thing, "feature_names_in_") else named(thing, X)
    is_classes = isinstance(thing, AtlasClassifier)
    scale = 1.0 if is_classes else float(thing.target_scale_.max())
    scale *= CLOSE_LOCALLY / CLOSE if state_of(thing.model_).local else 1
    report = thing.predict_proba if is_classes else thing.predict
    with float64_arithmetic():
        exact = report(X).reshape(len(X), -1)
        np.testing.assert_allclose(predicted, exact, rtol=0, atol=CLOSE * scale)
        if found[0]["interval"] is not None:
            check_doubt(thing, X, found, scale)
    np.testing.assert_allclose(
        predicted, report(X).reshape(len(X), -1), rtol=0, atol=1e-4 * scale
    )  # in float32


def named(thing, X):
    from atlas_splines.tables.encoding import frame

    if hasattr(thing, "encoding_"):
        return EncodedRows(X)
    return frame(list(thing.feature_names_in_), list(X.T))


def check_doubt(thing, X, found, scale):
    if isinstance(thing, AtlasClassifier):
        sets = [[label in row["interval"]["classes"] for label in thing.classes_.tolist()] for row in found]
        assert sets == thing.predict_set(X).tolist()
    else:
        for side, exact in zip(("low", "high"), thing.predict_interval(X), strict=True):
            ends = np.array([row["interval"][side] for row in found])
            np.testing.assert_allclose(ends, exact.reshape(len(ends), -1), rtol=0, atol=CLOSE * scale)
    np.testing.assert_allclose(
        [row["support"] for row in found], thing.support(X), rtol=0, atol=SUPPORT_CLOSE
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.atlas")))
def test_models_of_every_kind_and_version_say_what_python_says(page, name):
    check_against_python(page, GOLDEN / f"{name}.atlas")


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.random((300, 3)) * [10, 1, 5]
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=300)


FEW = {"members": 1, "terms": 1, "features": 25, "random_state": 0}


@pytest.mark.parametrize("extrapolation", ["constant", "linear"])
def test_rows_that_are_kept(page, data, path, extrapolation):
    """Local terms, copies of rows, a clock and what predicts beyond its end, and an update."""
    X, y = data
    X = np.column_stack([np.arange(len(X)), X.round(1)])
    model = AtlasRegressor(extrapolation=extrapolation, random_state=0).fit(
        X[:250], y[:250] + 0.05 * X[:250, 0]
    )
    state = state_of(model.model_)
    assert state.local
    assert state.later is not None
    save(model, path)
    check_against_python(page, path)
    save(model.partial_fit(X[250:], y[250:] + 0.05 * X[250:, 0]), path)
    check_against_python(page, path)


def test_classes_of_rows_that_are_kept(page, path):
    X = np.random.default_rng(0).random((600, 2))
    model = AtlasClassifier(random_state=0).fit(X, np.floor(4 * X).sum(axis=1) % 3)  # of squares on a board
    assert state_of(model.model_).local
    save(model, path)
    check_against_python(page, path)


def test_several_targets(page, data, path):
    X, y = data
    both = np.stack([y, -(y**2)], axis=1)
    save(AtlasRegressor(**FEW).fit(X, both).partial_fit(X[:50], both[:50]), path)
    check_against_python(page, path)


def test_a_half_life(page, data, path):
    X, y = data
    save(AtlasRegressor(half_life=50, domain="data", **FEW).fit(X, y).partial_fit(X[:120], y[:120] + 1), path)
    check_against_python(page, path)


def test_a_quantile_instead_of_the_mean(page, data, path):
    X, y = data
    save(AtlasRegressor(loss="quantile", quantile=0.8, **FEW).fit(X, y), path)
    check_against_python(page, path)


@pytest.mark.parametrize("is_updated", [False, True])
def test_linear_extrapolation(page, data, path, is_updated):
    X, y = data
    model = AtlasRegressor(extrapolation="linear", retention="pool", **FEW).fit(X, y)
    save(model.partial_fit(X + np.array([3, 0, 0]), y) if is_updated else model, path)
    check_against_python(page, path)


def test_a_quantile_that_goes_the_way_of_the_mean(page, data, path):
    X, y = data
    model = AtlasRegressor(loss="quantile", quantile=0.8, monotonic_cst=[0, 1, 0], **FEW)
    save(model.fit(X, y - X[:, 1] ** 2 * np.sin(99 * y)), path)
    check_against_python(page, path)


def test_counts(page, data, path):
    X, y = data
    save(AtlasRegressor(loss="poisson", **FEW).fit(X, np.maximum(np.rint(y), 0)), path)
    check_against_python(page, path)


@pytest.mark.slow
def test_stacked_members_and_a_trained_chart(page, data, path):
    X, y = data
    model = AtlasRegressor(features=60, random_state=0).fit(X, y)
    save(model._update(*model._checked(0.2 * X, y + 3, None), retention="chart", random_state=0), path)
    check_against_python(page, path)


def test_pictures_have_the_predictions_of_their_points(page):
    worst = ask(
        page,
        f"""async (file) => {{
          {OPEN}
          const [across, up] = axesOf(model);
          const point = unitPoint(model.columns, Float64Array.from(model.columns.fill));
          const {{ xs, ys, said }} = shapeOver(model, [across, up], point, {{ output: 0, count: 20, supportCount: 2 }});
          const {{ values, said: [curve] }} = shapeAlong(model, across, point, {{ count: 20, coverage: 0.9 }});
          const at = (x, y) => predictRows(model, [[x, y]])[0].values[0];
          const typical = model.columns.fill[1];
          const errors = [...said].map((value, k) => value - at(xs[k % 20], ys[Math.floor(k / 20)]));
          return Math.max(...errors.map(Math.abs), ...values.map((x, k) => Math.abs(curve[k] - at(x, typical))));
        }}""",
        as_text(GOLDEN / "pooled_v4.atlas"),
    )
    assert worst < 1e-12


# --- footprints -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model_v4", "model_float64_v4", "pooled_v4", "regressor_v4", "monotone_v4"])
def test_footprints_hold_the_same_points(page, name):
    thing = load(GOLDEN / f"{name}.atlas")
    model = getattr(thing, "model_", thing)
    random = np.random.default_rng(2)
    updates = [record for record in model.updates if isinstance(record, Update)]
    points = [
        record.footprint.domain[:, 0]
        + np.ptp(record.footprint.domain, axis=1) * random.random((60, model.inputs))
        for record in updates
    ]
    found = ask(
        page,
        f"""async (file, points) => {{
          {OPEN}
          const updates = updatesOf(model).filter((update) => update.footprint);
          return updates.map(({{ footprint }}, k) => ({{
            inside: points[k].map((point) => footprintContains(footprint, point.map(model.core.round))),
            share: shareInWords(model, footprint),
          }}));
        }}""",
        as_text(GOLDEN / f"{name}.atlas"),
        [part.tolist() for part in points],
    )
    assert len(found) == len(updates)
    for record, part, predicted in zip(updates, points, found, strict=True):
        assert predicted["inside"] == record.footprint.contains(part.astype(model.dtype)).tolist()
        share = record.footprint.share.size
        assert predicted["share"] == (
            "all of the domain" if share == 1 else f"{100 * share:.2f} % of the domain"
        )


# --- tables ---------------------------------------------------------------------------------------------

DATES = {
    "%Y-%m-%d": ["2024-02-29", "2024-12-31T23:59:59Z", "2023-01-01 7:05 pm", "1999-06-15 12:00:01.5+02:00"],
    "%d.%m.%y": ["31.12.68", "01.02.69", "2024-03-04"],
    "%b %d, %Y": ["Mar 4, 2024", "December 31, 1999 12:30 AM"],
    "%Y%m%d": ["20240229", "19700101 06:00"],
    "": ["7:05", "23:59:59", "12:30 AM"],
}


@pytest.mark.parametrize("zone", [None, "+02:00", "America/New_York"])
def test_dates_become_the_same_numbers(page, tmp_path, zone):
    for layout in (*LAYOUTS, "%Y%m%d"):
        rows = [[text] for text in DATES.get(layout) or [f"{date(2024, 5, 6):{layout}} 14:30"]]
        parts = ("hour", "weekday", "yearday", "trend") if layout else ("hour",)
        encoding = Encoding((Column("t", calendar=Calendar(parts, layout, "2011-01-01", zone)),), "y")
        assert encoded_by_page(page, encoding, rows) == encoded_by_python(encoding, rows, tmp_path), layout


def test_cells_become_the_same_numbers(page, tmp_path):
    columns = (
        Column("n"),
        Column("two", ("no", "yes"), others=("maybe",)),
        Column("few", ("a", "b", "True")),
        Column("many", tuple(map(str, range(30)))),
    )
    encoding = Encoding(columns, "y", dialect=Dialect(";", True, ("?",), ","))
    rows = [
        ["1,5", "yes", "b", "3"],
        ["", "maybe", "true", "7"],
        ["?", "", "NA", ""],
        ["1.234,5", " no ", "a", "29"],
    ]
    assert encoded_by_page(page, encoding, rows) == encoded_by_python(encoding, rows, tmp_path)


def encoded_by_page(page, encoding, rows):
    return ask(
        page,
        """(table, rows) => {
          const fields = tableFields(table);
          const names = fields.map((field) => field.name);
          return rows.map((row) => Array.from(encodeRow({ fields, names, missing: true, dialect: table.dialect ?? null }, row),
            (value) => (Number.isNaN(value) ? null : value)));
        }""",
        encoding.to_json(),
        rows,
    )


def encoded_by_python(encoding, rows, folder):
    path = folder / "t.csv"
    lines = [";".join(encoding.names) + ";y", *(";".join(row) + ";1" for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    dialect = Dialect(";", True, encoding.dialect.missing, encoding.dialect.decimal)
    return as_json(np.asarray(encoding.encode(next(Source.of(path, dialect=dialect).pieces()))))


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("12x", 'n: "12x" is not a number; correct it or leave it empty.'),
        ("", "n is missing, and this model was not fitted for that; fill it in."),
    ],
)
def test_cells_that_cannot_be_read(page, cell, sentence):
    found = ask(
        page,
        """(cell) => {
          const columns = { fields: tableFields({ columns: [{ name: "n", categories: null }] }), names: ["n"], missing: false };
          try { encodeRow(columns, [cell]); } catch (problem) { return problem.message; }
        }""",
        cell,
    )
    assert found == sentence


def test_offsets_of_levels(page, path):
    model = level_rows.fitted().partial_fit(*level_rows.both(80, 1))
    save(model, path)
    X = np.vstack([level_rows.both(10, 2)[0], level_rows.new_rows(5, 3)[0] + [0, 2**-20]])
    found = ask(page, PREDICT, as_text(path), as_json(X))
    with float64_arithmetic():
        expected = model.predict(X)
    predicted = np.array([row["said"][0] for row in found])
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=CLOSE * float(model.target_scale_.max()))
    grid = f"""async (file, places) => {{
      {OPEN}
      const [point, sides] = [Float64Array.of(0.3, 0.5), [[new Map([[0, 0.3]]), new Map([[0, 0.6]])]]];
      sides.push(places.map((place) => new Map([[1, place]])));
      return [...gridOutputs(model.core, point, sides)];
    }}"""
    places = [level_rows.NEW, float(level_rows.PLACES[3]), 0.5]
    points = np.array([[x, place] for x in (0.3, 0.6) for place in places], np.float32)
    outputs = ask(page, grid, as_text(path), places)
    np.testing.assert_allclose(outputs, evaluate(state_of(model.model_), points)[:, 0], rtol=0, atol=1e-9)
