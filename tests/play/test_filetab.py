"""The tab of model files in a real browser: files made by Python, and files that are none."""

import base64
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from float64_arithmetic import float64_arithmetic
from mutations import of_table

from atlas_splines import AtlasClassifier, AtlasRegressor, save
from atlas_splines.cli.experiments import PlayServer
from atlas_splines.files.archive import Archive, write_archive
from atlas_splines.play.bundle import PAGE
from atlas_splines.tables.encoding import Column, Encoding, frame

CITIES = ("Bergen", "Cadiz", "Dublin")
NUMBERS = "return [...document.querySelectorAll('#file-prediction data')].map((each) => Number(each.value))"


@pytest.fixture(scope="module")
def homes():
    """A regressor of a table with numbers and categories, and a chart that a message tells of."""
    encoding = Encoding((Column("size"), Column("city", CITIES), Column("garden", ("no", "yes"))), "price")
    random = np.random.default_rng(0)
    size, city, garden = (
        random.uniform(40, 200, 200),
        random.integers(3, size=200),
        random.integers(2, size=200),
    )
    X = frame(encoding.inputs, [size, *(1.0 * (city == k) for k in range(3)), 1.0 * garden])
    model = AtlasRegressor(members=1, terms=1, features=30, random_state=0).fit(X, size + 30 * city)
    few = np.flatnonzero((city == 1) & (size < 120))
    model = model.set_params(retention="chart")
    model.partial_fit(X.take(few), size[few] + 90, message="prices of May", author="Ada", assess=True)
    return of_table(model, encoding)


@pytest.fixture
def tab(page):
    """The page with the tab of files, which complains of nothing."""
    page.open(PAGE.as_uri() + "#tab=file")
    yield page
    assert page.errors() == []


def percent(share):
    """A probability as the page has it: never 0 or 100 unless it is."""
    if share in (0, 1):
        return f"{100 * share:.0f}\u00a0%"
    if not 1e-4 <= share <= 1 - 1e-4:
        return "under 0.01\u00a0%" if share < 0.5 else "over 99.99\u00a0%"
    digits = 2 if not 0.01 <= share <= 0.99 else 1 if not 0.1 <= share <= 0.9 else 0
    return f"{100 * share:.{digits}f}\u00a0%"


def choose(page, path):
    """Choose a file, and wait until its picture is drawn or there is an error."""
    page.one("#file-choose").send_keys(str(path))
    page.wait(
        "!document.getElementById('error').hidden || document.getElementById('file-caption').textContent"
    )


def type_row(page, *cells):
    """Fill in a row, and wait until what is said of it is there."""
    for k, cell in enumerate(cells):
        page.set(f"#file-field-{k}", cell)
    page.wait("document.getElementById('file-prediction').getAttribute('aria-busy') === 'false'")


def inputs_of(size, city, garden):
    return [{"size": size, "city": city, "garden": garden}]


@pytest.mark.slow
def test_a_file_of_python_has_the_same_predictions_on_the_page(tab, homes, path):
    save(homes, path)
    choose(tab, path)
    assert tab.text("#file-facts").startswith("model.atlas: a regressor of price, fitted ")
    assert tab.text("#file-facts").endswith("checksum right.")
    assert tab.texts("#file-row label span") == ["size", "city", "garden"]
    for size, city, garden in ((75.5, "Cadiz", "no"), (150.0, "Dublin", "yes"), (100.0, "Cadiz", "yes")):
        type_row(tab, str(size), city, garden)
        X = inputs_of(size, city, garden)
        with float64_arithmetic():
            predicted = [
                homes.predict(X),
                *homes.predict_interval(X),
                homes.support(X),
            ]
        exact = np.concatenate(predicted)
        np.testing.assert_allclose(tab.script(NUMBERS), exact, rtol=0, atol=1e-9)
        assert tab.text(".file-value") == f"price: {float(f'{exact[0]:.5g}'):,g}"


def test_a_file_can_be_dropped_anywhere(page, homes, path):
    save(homes, path)
    page.open(PAGE.as_uri())  # another tab is open at first
    page.script(
        """
        const transfer = new DataTransfer();
        const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
        transfer.items.add(new File([bytes], "dropped.atlas"));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
        """,
        base64.b64encode(path.read_bytes()).decode(),
    )
    page.wait("document.querySelector('#panel-file:not([hidden]) .file-value')")
    assert page.text("#file-facts").startswith("dropped.atlas: a regressor of price")


def test_a_file_that_the_command_serves_is_open_at_once(page, homes, path):
    save(homes, path)
    with PlayServer(model=path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        page.open(server.address)
        page.wait("document.querySelector('#panel-file:not([hidden]) .file-value')")
        server.shutdown()
        thread.join()
    assert page.text("#file-facts").endswith("checksum right.")


def test_a_model_of_a_data_frame_knows_its_columns(tab, path):
    colours = ["red", "green", "blue"] * 40
    X = pd.DataFrame({"size": np.linspace(0, 1, 120), "colour": colours})
    model = AtlasRegressor(members=1, terms=1, features=20, random_state=0).fit(
        X, X["size"] + (X["colour"] == "red")
    )
    save(model, path)
    choose(tab, path)
    type_row(tab, "0.25", "red")
    with float64_arithmetic():
        predicted = model.predict(pd.DataFrame({"size": [0.25], "colour": ["red"]}))
    np.testing.assert_allclose(tab.script(NUMBERS)[:1], predicted, rtol=0, atol=1e-12)


def test_updates_and_their_footprints(tab, homes, path):
    save(homes, path)
    choose(tab, path)
    assert "chart" in tab.text("#file-log button")
    assert "“prices of May”, Ada" in tab.text("#file-log li")
    after = homes.update_log_[-1].held_out.error
    assert f" before, {after:.5g} after, held out · " in tab.text("#file-log li")
    plain = tab.script("return document.getElementById('file-canvas').toDataURL()")
    tab.script("document.querySelector('#file-log button').click()")
    tab.wait("document.getElementById('file-caption').textContent.includes('footprint')")
    assert tab.script("return document.getElementById('file-canvas').toDataURL()") != plain
    places = tab.texts("#file-log ul li")
    assert places[1:] == ["city: Cadiz", "garden: no, yes, missing"]
    assert tab.text("#live").startswith("Update 1 can change ")
    tab.script("document.querySelector('.file-place button').click()")
    tab.wait("document.getElementById('file-field-1').value === 'Cadiz'")
    tab.wait("document.getElementById('file-caption').textContent.endsWith('Outlined: the footprint.')")


def test_shapes_along_one_column_and_over_two(tab, homes, path):
    save(homes, path)
    choose(tab, path)
    label = "document.getElementById('file-canvas').getAttribute('aria-label')"
    assert tab.script(f"return {label}").startswith("Map of price over size and city, from ")
    tab.set("#file-up", "")
    tab.wait(f"{label}.startsWith('Curve along size: price begins at ')")
    tab.set("#file-across", "1")
    tab.wait(f"{label}.startsWith('Curve along city: ')")
    place = "document.querySelector('.file-{}').getBoundingClientRect()"
    assert tab.script(f"return {place.format('picture')}.right < {place.format('row')}.left")  # side by side
    assert tab.script("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_classes_have_probabilities(tab, path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = np.where(X[:, 0] > 0, "hot", "cold")
    model = AtlasClassifier(members=1, features=20, random_state=0).fit(X, y)
    save(model, path)
    choose(tab, path)
    type_row(tab, "0.5", "-1")
    with float64_arithmetic():
        chances = model.predict_proba([[0.5, -1]])[0]
    assert tab.text(".file-value") == "hot"
    texts = tab.texts("#file-prediction .file-classes data")
    assert texts == [percent(chance) for chance in np.sort(chances)[::-1]]
    assert tab.texts("#file-legend")[0] == "01"  # a probability has colours from 0 to 1
    np.testing.assert_allclose(tab.script(NUMBERS)[:2], np.sort(chances)[::-1], rtol=0, atol=1e-12)


def test_a_row_that_cannot_be_read_is_told_in_one_sentence(tab, homes, path):
    path.write_bytes(b"")
    choose(tab, path)
    save(homes, path)
    tab.script("document.getElementById('file-choose').dispatchEvent(new Event('click'))")
    tab.one("#file-choose").send_keys(str(path))  # the same name, another file
    tab.wait("document.getElementById('file-caption').textContent")
    assert not tab.one("#error").is_displayed()  # it was about another file
    type_row(tab, "12x")
    assert tab.text("#file-prediction") == 'size: "12x" is not a number; correct it or leave it empty.'


def write_too_large(path: Path, homes: AtlasRegressor) -> None:
    with path.open("wb") as file:
        file.truncate(300 * 2**20)


def write_patch(path: Path, homes: AtlasRegressor) -> None:
    write_archive(path, Archive("patch", {}, {}))


def write_damaged(path: Path, homes: AtlasRegressor) -> None:
    save(homes, path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def write_cut(path: Path, homes: AtlasRegressor) -> None:
    save(homes, path)
    path.write_bytes(path.read_bytes()[:-8])


NO_MODEL = "This is not an atlas-splines file; choose one that save or the command atlas wrote."


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path, _: path.write_text("size,price\n1,2\n"), NO_MODEL),
        (lambda path, _: path.write_bytes(b""), NO_MODEL),
        (write_patch, "This is a patch, not a model; make a model of it with atlas apply."),
        (write_too_large, "The file is too large: it has 300 MB, and this page reads up to 256 MB."),
        (write_damaged, "The file is damaged: its checksum is wrong, so some of its bytes have changed."),
        (write_cut, "The file is damaged: it should have "),
    ],
)
def test_wrong_files_are_refused_in_one_sentence(tab, homes, path, write, sentence):
    write(path, homes)
    choose(tab, path)
    assert tab.text("#error").startswith(sentence)
    assert tab.text("#error").count(". ") == 0
    assert tab.script("return document.querySelector('.file-body').hidden")
