"""What the page is told, and the page itself in a real browser."""

import numpy as np
import pytest
from browser import Page, open_browser
from command import write_csv
from service import ROW, Service, rows_of

from atlas_splines import AtlasClassifier, load, save
from atlas_splines.serve.page import changed_by, life, tried, typical_row, why
from atlas_splines.serve.snapshot import Snapshot
from atlas_splines.tables import bodies

HOSTILE = '<img src=x onerror="window.harmed=1">'


def learned(snapshot, seed, **options):
    return snapshot.learn(bodies.of_rows(rows_of(25, seed)), **options).snapshot


@pytest.fixture(scope="module")
def taught(fitted):
    return learned(learned(Snapshot.load(fitted), 1, author="Ada", message="May"), 2)


# --- what it is told ----------------------------------------------------------------------------------


def test_a_life_is_the_log_with_what_can_be_undone(taught):
    after, _ = taught.revert(1)
    facts = life(after, "homes.atlas", {1: 0.9}, False)
    assert [(each["id"], each["kind"], each["undoable"]) for each in facts["entries"]] == [
        (1, "pool", False),
        (2, "pool", True),
        (3, "revert", False),
    ]
    first = facts["entries"][0]
    assert (first["author"], first["message"], first["coverage"]) == ("Ada", "May", 0.9)
    assert facts["entries"][1]["coverage"] is None
    assert facts["version"] == after.version
    assert facts["fit"]["rows"] == 150


def test_a_typical_row_is_nobodys(taught):
    row = typical_row(taught)
    assert {*row} == {"size", "age", "city", "garden"}
    assert 80 < row["size"] < 150
    assert row["city"] in ("Aarhus", "Bergen", "Cadiz")
    _, notes = taught.encode_rows([row])
    assert notes == []


def test_a_row_is_predicted_as_everywhere_and_along_each_column(taught):
    other, _ = taught.revert(1)
    facts = tried(taught, ROW, other)
    table = bodies.of_rows([ROW])
    assert facts["now"]["value"] == taught.estimator.predict(table)[0]
    low, high = taught.estimator.predict_interval(table)
    assert facts["now"]["interval"] == [low[0], high[0]]
    assert facts["now"]["support"] == taught.estimator.support(table)[0]
    assert facts["other"]["value"] == other.estimator.predict(table)[0]
    size, age, city, _ = facts["shapes"]
    assert [shape["name"] for shape in facts["shapes"]] == ["size", "age", "city", "garden"]
    assert city["places"] == ["Aarhus", "Bergen", "Cadiz"]
    assert city["values"][2] == facts["now"]["value"]
    along = bodies.of_rows([ROW | {"size": place} for place in size["places"]])
    assert size["values"] == taught.estimator.predict(along).tolist()
    assert size["other"] == other.estimator.predict(along).tolist()
    assert len(age["places"]) == len(age["low"]) == 41


def test_what_undoing_changes_is_counted_over_points_like_known_rows(taught):
    assert changed_by(taught, taught)["share"] == 0
    other, _ = taught.revert(2)
    change = changed_by(taught, other)
    assert 0 < change["mean"] <= change["largest"]
    assert (change["unit"], change["columns_gone"]) == ("price", [])


def test_columns_that_came_with_an_update_go_with_it(taught):
    rows = [row | {"colour": "red" if k % 2 else "blue"} for k, row in enumerate(rows_of(40, 8))]
    more = taught.learn(bodies.of_rows(rows), new_columns=True).snapshot
    other, _ = more.revert(3)
    assert changed_by(more, other)["columns_gone"] == ["colour"]
    facts = tried(more, typical_row(more), other)
    assert [shape["name"] for shape in facts["shapes"]][-1] == "colour"


def test_dates_and_classes_have_typical_values_too(tmp_path):
    from command import ok

    random = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + np.arange(300)
    x = random.random(300).round(3)
    kind = np.where(x > 0.5, "high", "low")
    write_csv(tmp_path / "kinds.csv", ["day", "x", "kind"], zip(days, x, kind, strict=True))
    ok("fit", tmp_path / "kinds.csv", "-t", "kind", "-o", tmp_path / "kinds.atlas")
    snapshot = Snapshot.load(tmp_path / "kinds.atlas")
    row = typical_row(snapshot)
    assert "2024-01-01" <= row["day"] <= "2024-10-30"
    facts = tried(snapshot, row | {"x": 0.9}, None)
    assert facts["label"] == "high"
    assert facts["now"]["value"] == snapshot.estimator.predict_proba(bodies.of_rows([row | {"x": 0.9}]))[0, 0]
    assert facts["now"]["set"] == ["high"]
    assert [shape["name"] for shape in facts["shapes"]] == ["x"]
    after = snapshot.learn(
        bodies.of_rows([{"day": "2024-11-01", "x": k / 40, "kind": "huge"} for k in range(40)])
    ).snapshot
    assert changed_by(after, snapshot)["unit"] == "probability"


def test_a_prediction_comes_from_columns_and_from_updates(taught):
    facts = why(taught, ROW)
    table = bodies.of_rows([ROW])
    (prediction,) = taught.estimator.predict(table)
    columns, updates = facts["explanation"], facts["blame"]
    expected = taught.estimator.explain(table)
    assert columns["names"] == expected.feature_names == ["size", "age", "city", "garden"]
    assert columns["values"] == pytest.approx(expected.values[0], rel=1e-9)
    assert columns["base"] + sum(columns["values"]) == pytest.approx(prediction, rel=1e-9)
    assert updates["updates"] == (0, 1, 2)
    assert updates["base"] + sum(updates["values"]) + updates["rest"] == pytest.approx(prediction, rel=1e-9)
    assert len(updates["rows"]) == 6
    largest = [abs(each["value"]) for each in updates["rows"]]
    assert largest == sorted(largest, reverse=True)
    assert {each["update"] for each in updates["rows"]} <= {0, 1, 2}
    assert facts["version"] == taught.version
    # what is kept for the next row does not change its values
    other = ROW | {"size": 120.0, "city": "Oslo"}
    again = taught.estimator.explain(bodies.of_rows([other]))
    assert why(taught, other)["explanation"]["values"] == pytest.approx(again.values[0], rel=1e-9)


def test_why_is_about_the_class_that_is_predicted(tmp_path):
    x = np.random.default_rng(0).random((240, 2))
    kind = np.array(["low", "middle", "high"])[np.digitize(x[:, 0], [0.3, 0.7])]
    save(AtlasClassifier(random_state=0).fit(x, kind), tmp_path / "kinds.atlas")
    snapshot = Snapshot.load(tmp_path / "kinds.atlas")
    row = dict(zip(snapshot.encoding.names, (0.9, 0.5), strict=True))
    facts = why(snapshot, row)
    assert facts["explanation"]["unit"].endswith("of high")
    assert facts["blame"]["unit"].endswith("of high")
    assert facts["explanation"]["values"][0] > abs(facts["explanation"]["values"][1])
    expected = snapshot.estimator.blame([[0.9, 0.5]])
    high = list(snapshot.estimator.classes_).index("high")
    assert facts["blame"]["values"] == expected.values[0, :, high].tolist()


# --- in a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    browser = open_browser(tmp_path_factory.mktemp("browser"))
    yield Page(browser, "")
    browser.quit()


def opened(page, service, width=1280, height=900, dark=False):
    """The page of a service, once it has answered."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.browser.get("about:blank")
    page.errors()  # those of a service that has ended
    page.browser.get(f"http://127.0.0.1:{service.port}/")
    page.wait("document.querySelectorAll('#shapes svg').length", "the shapes")


@pytest.fixture
def living(model):
    """A service whose model has learned twice."""
    with Service(model) as service:
        for seed, message in ((1, "May"), (2, HOSTILE)):
            service.post(
                f"/learn?author=Ada&message={message}".replace(" ", "%20"), {"rows": rows_of(25, seed)}
            )
        yield service


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_shows_a_life_at_any_width(page, living, width, dark):
    opened(page, living, width, dark=dark)
    assert page.text("#name") == "homes.atlas"
    assert len(page.texts("#error-chart a")) == len(page.texts("#coverage-chart a")) == 2
    assert page.texts("#updates h3") == ["2 · learned 25 rows", "1 · learned 25 rows"]
    assert "May" in page.text("#update-1")
    assert page.text("#answers .value")
    assert page.script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    paper = page.script("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(17, 21, 27)" if dark else "rgb(247, 246, 242)")
    assert page.errors() == []


CONTRAST = """
const part = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (text) => part(text).slice(0, 3)
    .map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
const below = (node) => {
    for (let it = node; it; it = it.parentElement) {
        const found = getComputedStyle(it).backgroundColor;
        if (part(found)[3] !== 0) return found;
    }
    return "rgb(255, 255, 255)";
};
return [...document.querySelectorAll("h1, h2, h3, p, label, button, summary, figcaption, .value")]
    .filter((node) => node.offsetParent && node.textContent.trim())
    .map((node) => {
        const [a, b] = [light(getComputedStyle(node).color), light(below(node))];
        return [node.tagName + " " + node.className, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
    })
    .filter(([, ratio]) => ratio < 4.5);
"""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_its_texts_can_be_read_and_its_parts_have_names(page, living, dark):
    opened(page, living, dark=dark)
    assert page.script(CONTRAST) == []
    unnamed = page.script(
        "return [...document.querySelectorAll('input, select, button, svg[role], svg a, meter')]"
        ".filter((node) => !(node.labels?.length || node.getAttribute('aria-label') || node.textContent.trim()))"
        ".map((node) => node.outerHTML)"
    )
    assert unnamed == []
    assert page.script("return document.documentElement.lang") == "en"
    assert page.texts("h1, h2") == ["homes.atlas", "Its life", "Updates", "Try a row", "Columns", "Undo"]


@pytest.mark.slow
def test_a_row_can_be_tried_and_compared(page, living):
    opened(page, living)
    before = page.text("#answers .value")
    page.set("#row input", "60")
    page.wait(f"document.querySelector('#answers .value').textContent !== {before!r}", "the answer")
    row = living.get("/life")["row"] | {"size": 60}
    (expected,) = living.predict(row)
    assert float(page.text("#answers .value").replace(",", "")) == pytest.approx(expected, rel=1e-3)
    page.set("#without", "1")
    page.wait("document.querySelector('.answer.other')", "the comparison")
    assert page.text(".answer.other h3") == "without update 1"
    assert page.script("return document.querySelectorAll('#shapes .line.other').length") > 0
    page.wait("document.querySelectorAll('#why .bar').length", "the reasons")
    assert page.texts("#why h3") == ["Which columns", "Which updates"]
    assert sorted(page.texts("#why .bars:last-child .bar > span:first-child")) == [
        "the fit",
        "update 1",
        "update 2",
    ]
    page.set("#row select", "")  # a missing category
    page.wait("document.querySelector('#answers[aria-busy]') === null", "the answer")
    assert page.errors() == []


@pytest.mark.slow
def test_an_update_is_undone_by_keyboard(page, living, fitted):
    from selenium.webdriver.common.keys import Keys

    opened(page, living)
    for number in (2, 1):
        page.one(f"#update-{number} button").send_keys(Keys.ENTER)
        page.wait("!document.getElementById('undo-yes').disabled", "what would change")
        assert page.text("#undo-title") == f"Undo update {number}?"
        assert "of points like the known rows" in page.text("#undo-change").lower()
        if number == 2:
            page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
            page.wait("!document.getElementById('undo').open", "the end of the dialog")
    assert page.script("return document.activeElement.id") == "undo-no"
    page.one("#undo-no").send_keys(Keys.TAB)
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait("document.querySelectorAll('#updates li').length === 3", "the undoing")
    assert page.text("#updates h3") == "3 · undid update 1"
    assert not page.script("return document.getElementById('undo').open")
    living.post("/revert/2")
    assert living.predict() == load(fitted).for_frames().predict(bodies.of_rows([ROW])).tolist()
    page.wait("document.querySelectorAll('#updates li').length === 4", "the look for a new version")


@pytest.mark.slow
def test_the_token_is_asked_for_in_the_dialog(page, model, tmp_path):
    token = "0123456789abcdef"
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    with Service(model, "--token-file", str(tmp_path / "token")) as service:
        service.post("/learn", {"rows": rows_of(25)}, Authorization=f"Bearer {token}")
        opened(page, service)
        assert page.script("return document.getElementById('token-form').hidden")
        page.one("#update-1 button").click()
        page.wait("!document.getElementById('undo-yes').disabled", "what would change")
        page.one("#undo-yes").click()
        page.wait("document.getElementById('undo-change').textContent.includes('token')", "the refusal")
        page.one("#undo #token").send_keys(token)
        page.one("#undo-yes").click()
        page.wait("document.querySelectorAll('#updates li').length === 2", "the undoing")
        assert {entry for entry in page.errors() if "401" not in entry} == set()


@pytest.mark.slow
def test_hostile_names_are_text(page, tmp_path):
    from command import ok

    random = np.random.default_rng(0)
    names = [HOSTILE, "</script><script>window.harmed=2</script>", "\u202eevil", "constructor", "__proto__"]
    columns = [random.random(80).round(3), random.choice([HOSTILE, "'\"><b>", "${1}"], 80)]
    columns += [random.random(80).round(3) for _ in range(3)]
    target = random.random(80).round(3)
    rows = zip(*columns, target, strict=True)
    write_csv(tmp_path / "t.csv", [*names, "<b>price</b>"], rows)
    path = tmp_path / "<img src=x onerror=harmed=3>.atlas"
    ok("fit", tmp_path / "t.csv", "-t", "<b>price</b>", "-o", path)
    with Service(path) as service:
        more = [
            dict(zip([*names, "<b>price</b>"], [0.5, HOSTILE, 0.1, 0.2, 0.3, 0.1 * k], strict=True))
            for k in range(25)
        ]
        service.post(
            "/learn?accept=1&message=%3Cimg%20src=x%20onerror=harmed=4%3E&author=%3Cb%3E", {"rows": more}
        )
        opened(page, service)
        assert page.text("#name") == path.name
        assert (
            page.script(
                "return [...document.querySelectorAll('#row label')].map((each) => each.firstChild.data)"
            )
            == names
        )
        assert page.texts("#shapes h3") == names
        page.one("#update-1 button").click()
        page.wait("!document.getElementById('undo-yes').disabled", "what would change")
        assert (
            page.script("return document.querySelectorAll('main img, main b, dialog img, dialog b').length")
            == 0
        )
        assert page.script("return window.harmed") is None
        status, headers, _ = service.ask("GET", "/")
        assert status == 200
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert page.texts("#notes li") == []
        assert page.errors() == []
