"""The playground in a real browser, opened from the file system, as someone would use it."""

import re

import pytest

LEARNERS = ["charts", "pooled", "plain", "mlp", "kan", "boosting", "neighbours"]


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_complaints(page):
    yield
    assert page.errors() == []


def learned(page):
    page.wait("document.getElementById('learners').getAttribute('aria-busy') === 'false'", "learning")


def numbers(page):
    """What stands under each picture."""
    return dict(zip(LEARNERS, page.texts(".learner .number"), strict=True))


def picture(page, learner):
    """All pixels of the picture of a learner."""
    return page.script(f"return document.querySelector('#learner-{learner} canvas').toDataURL()")


def pictures(page):
    return {learner: picture(page, learner) for learner in LEARNERS}


def open_page(page, state=""):
    page.open(f"#{state}")
    learned(page)


def test_a_lesson_on_a_map_leaves_a_cross_in_the_papers_model_and_nothing_with_charts(page):
    open_page(page, "f=C")
    before = pictures(page)
    assert page.texts(".learner .lead") == ["The lesson can change:"] * 7
    assert "Press Teach: all of them learn new values" in page.text("#verdict")
    assert numbers(page) == {
        "charts": "4.0\u00a0%",  # the region is 0.2 wide
        "plain": "53\u00a0%",  # the arms of the cross reach three cells further
        **dict.fromkeys(["pooled", "mlp", "kan", "boosting", "neighbours"], "everything"),
    }
    page.one("#teach").click()
    learned(page)
    assert page.texts(".learner .lead") == ["Changed elsewhere:"] * 7
    found = numbers(page)
    assert found["charts"] == "0 of 38,400 predictions"
    assert found["mlp"] == found["pooled"] == "100\u00a0%"
    share = 100 * (1 - (1 - 19 / 61) ** 2 - 0.04) / 0.96  # cells that the outline promises: 19 of 61 a side
    assert float(found["plain"].split("\u00a0")[0]) == pytest.approx(share, abs=1)
    assert 0 < float(found["neighbours"].split("\u00a0")[0]) < 10
    assert page.text("#verdict").startswith(
        "All of them were taught 4.0\u00a0% of the map. Elsewhere, ATLAS with charts changed 0 of 38,400 predictions, "
        "and the neural network 100\u00a0%, by "
    )
    spoken = page.text("#live")
    assert spoken.startswith(
        "Changed elsewhere: ATLAS, with charts 0 of 38,400 predictions; ATLAS, pooled 100"
    )
    assert all(before[learner] != shown for learner, shown in pictures(page).items())

    for detail in page.texts(".learner .detail"):  # all of them learned the lesson, some of it at least
        off, was_off = re.search(r"Lesson (\S+)\s% off, (\S+)\s% before", detail).groups()
        assert float(off) < 0.25 * float(was_off)
    assert sum(float(detail.split()[1]) < 1.1 for detail in page.texts(".learner .detail")) == 5

    taught = pictures(page)
    page.one("#doubt").click()
    learned(page)
    assert {name for name, image in pictures(page).items() if image != taught[name]} == {"charts", "pooled"}
    assert [("Intervals (90\u00a0%): ±" in detail) for detail in page.texts(".learner .detail")] == [
        name in ("charts", "pooled") for name in LEARNERS
    ]
    page.one("#doubt").click()

    page.one("#lessons button").click()
    assert page.script("return document.activeElement.id") == "teach"  # the button that was pressed is gone
    learned(page)
    assert pictures(page) == before


def test_lessons_are_undone_in_any_order_and_history_is_walked_through(page):
    open_page(page, "f=sine&l=flat~0.6~0.8~1&n=flat~0.6~0.8~1")
    second_alone = pictures(page)
    open_page(page, "f=sine&n=mirror~0.1~0.3~0")
    page.one("#teach").click()
    learned(page)
    page.set("#kind", "flat")
    page.set("#level", "1")
    page.drag("#truth", (0.6, 0.5), (0.7, 0.5), (0.8, 0.5))
    first_alone = pictures(page)
    assert "x 0.6–0.8" in page.one("#truth").get_attribute("aria-label")
    page.keys("#truth", "Enter")
    learned(page)
    assert page.texts("#lessons li span") == ["upside down: x 0.1–0.3", "one value: x 0.6–0.8"]
    assert numbers(page)["charts"] == "0 of 3,200 predictions"

    page.set("#moment", "1")
    learned(page)
    assert page.text("#moment-value") == "after lesson 1"
    assert pictures(page) == first_alone
    page.set("#moment", "0")
    learned(page)
    assert page.texts(".learner .lead") == ["The lesson can change:"] * 7

    page.script("document.querySelector('[aria-label=\"Undo lesson 1\"]').click()")
    learned(page)
    assert page.texts("#lessons li span") == ["one value: x 0.6–0.8"]
    assert pictures(page) == second_alone


def test_a_function_and_new_values_are_drawn_and_an_address_restores_them(page):
    open_page(page, "f=curve&n=flat~0.4~0.6~1")
    flat = picture(page, "charts")
    page.script("document.querySelector('[value=function]').click()")
    page.drag("#truth", *((k / 40, 0.3 + 0.4 * (k % 20) / 20) for k in range(41)))
    learned(page)
    drawn = picture(page, "charts")
    assert drawn != flat
    page.script("document.querySelector('[value=values]').click()")
    page.drag("#truth", *((0.4 + k / 100, 0.9) for k in range(21)))
    assert page.script("return document.getElementById('kind').value") == "drawn"
    page.one("#teach").click()
    learned(page)
    assert numbers(page)["charts"] == "0 of 3,200 predictions"
    page.set("#doubt", "on")
    page.script("document.getElementById('doubt').click()")
    learned(page)
    shown, told, address = pictures(page), numbers(page), page.browser.current_url
    page.open(address)
    learned(page)
    assert page.browser.current_url == address
    assert page.text("#lessons li span") == "drawn by you: x 0.4–0.6"
    assert numbers(page) == told
    assert pictures(page) == shown
    page.script("document.getElementById('doubt').click()")
    learned(page)
    assert {name for name, image in pictures(page).items() if image != shown[name]} == {"charts", "pooled"}


def test_the_five_peaks_of_kan_stay_with_charts_and_not_in_a_network(page):
    open_page(page, "f=peaks")
    page.one("#teach-all").click()
    page.wait("document.querySelectorAll('#lessons li').length === 5")
    learned(page)
    page.wait("document.querySelector('#live').textContent.startsWith('Changed elsewhere')")
    found = numbers(page)
    assert found["charts"] == "0 of 3,200 predictions"
    assert found["mlp"] == "100\u00a0%"
    assert 0 < float(found["kan"].split("\u00a0")[0]) < 10  # one spline: nearly as local as a chart


def test_the_keyboard_does_all_of_it(page):
    open_page(page, "f=sine&n=flat~0.4~0.6~1")
    page.keys("#truth", "ArrowLeft", "Shift+ArrowRight")
    assert page.text("#live") == "Region x 0.38–0.6."
    assert page.script("return document.getElementById('truth').tabIndex") == 0
    page.script("document.querySelector('[value=values]').click()")
    page.keys("#truth", "ArrowLeft", "ArrowRight")
    assert page.text("#live") == "Pen at 0.50."
    page.keys("#truth", " ")
    assert page.script("return document.getElementById('kind').value") == "drawn"
    page.keys("#truth", "Enter")
    learned(page)
    assert page.texts("#lessons li span") == ["drawn by you: x 0.38–0.6"]
    page.keys("#tab-teach", "ArrowRight")
    assert page.one("#tab-inside").get_attribute("aria-selected") == "true"
    assert page.script("return document.activeElement.id") == "tab-inside"
    named = "return [...document.querySelectorAll('canvas')].filter((it) => it.clientWidth && !it.ariaLabel).length"
    assert page.script(named) == 0


def test_the_parts_of_the_model_are_shown(page):
    page.open("#f=sine&tab=inside")
    page.wait("document.querySelectorAll('#parts canvas').length === 10")
    page.set("#basis-density", "1")
    page.set("#basis-place", "0.05")
    assert "8 functions on 5 cells" in page.text("#basis-text")
    assert "0.070 + 0.612 + 0.315 + 0.003 = 1" in page.text("#basis-text")  # the table of docs/math.md
    errors = []
    for step in range(10):
        page.set("#steps-step", str(step))
        text = page.text("#steps-text")
        if step % 2 == 0:
            assert "0 of 4,000 predictions changed, bit for bit" in text
        else:
            errors.append(float(re.search(r"is (\S+) % of the range off", text)[1]))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01 < errors[0]
    page.keys("#tab-inside", "ArrowLeft")  # what was put off while nobody looked is learned now
    learned(page)
    assert page.texts(".learner .lead") == ["The lesson can change:"] * 7
    zeros, outside = re.search(r"at (\d+) of (\d+) points", page.text("#fence-text")).groups()
    assert zeros == outside


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("f=nothing", "There is no function named nothing; choose one from the list."),
        (
            "f=sine&l=flat~0.6~9~1",
            "The address has a lesson that cannot be read; choose a function to begin anew.",
        ),
        ("f=curve&d=AAAA", "The address has a drawing that cannot be read; choose a function to begin anew."),
    ],
)
def test_an_address_that_cannot_be_read_is_told_in_a_sentence(page, state, sentence):
    page.open(f"#{state}&tab=inside")  # where nothing has to be learned
    page.wait("!document.getElementById('error').hidden")
    assert page.text("#error") == sentence
    page.keys("#truth", "ArrowLeft")  # whoever goes on has read it
    assert not page.one("#error").is_displayed()


def test_it_fits_in_light_and_dark_and_on_phones(page):
    colours = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        page.open("#tab=inside")
        colours.add(page.script("return getComputedStyle(document.body).backgroundColor"))
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(colours) == 2
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for tab in ("inside", "teach"):
            page.open(f"#f=sine&tab={tab}")
            assert page.script("return document.documentElement.scrollWidth") == 360
        page.one("#teach").click()
        page.wait(
            "document.getElementById('verdict').getBoundingClientRect().top < 50"
        )  # results are looked at
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
