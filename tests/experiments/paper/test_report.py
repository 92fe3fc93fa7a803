import re
import warnings
from html.parser import HTMLParser

import pytest

from atlas_splines.experiments.boxes import WIDTHS
from atlas_splines.experiments.paper import report
from atlas_splines.experiments.paper.figures import DRAWINGS

pytestmark = pytest.mark.slow

NAMES = [drawing.name for drawing in DRAWINGS]


class Page(HTMLParser):
    """Collects what a browser would load, and checks that tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.ids, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.loaded += [named[k] for k in ("src", "srcset", "data") if k in named]
        self.loaded += [named["href"]] if tag == "link" else []
        self.links += [named["href"]] if tag == "a" else []
        self.ids += [named["id"]] if "id" in named else []
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory, results, pictures):
    facts = {"version": "1.2 <b>&amp;", "total time": 'a "minute" & more'}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return report.write_report(tmp_path_factory.mktemp("out") / "new", results, pictures, facts)


@pytest.fixture(scope="module")
def text(written):
    return written.read_text(encoding="utf8")


def test_the_page_has_every_figure_in_order(written, text):
    page = Page(text)
    assert not page.open
    assert [i for i in page.ids if i in NAMES] == NAMES
    assert len(set(page.ids)) == len(page.ids)
    assert len(page.loaded) == len(NAMES)
    for name in NAMES:
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            path = written.parent / "figures" / f"{name}.{kind}"
            assert path.read_bytes().startswith(start)
            assert f"figures/{name}.{kind}" in page.links


def test_the_page_loads_nothing(text):
    page = Page(text)
    assert all(source.startswith("data:image/png;base64,") for source in page.loaded)
    assert not [link for link in page.links if not link.startswith(("#", "figures/"))]
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_the_page_escapes_what_it_is_given(text):
    assert "1.2 &lt;b&gt;&amp;amp;" in text
    assert "a &quot;minute&quot; &amp; more" in text
    assert "<b>&amp;" not in text


def test_the_page_states_findings(text):
    assert "lower than without in 27 of 27 cells" in text
    assert "R² = 1.00, correlation 1.00 (n = 8, noisy)" in text
    assert (
        "With charts the clean test error on Task 2 is lower than with the guarantee alone in 27 of 27"
        in text
    )
    assert "A 0.2 and 0.025" in text


def test_the_table_has_a_mean_for_each_cell(text):
    tables = re.findall(r"<table><caption>Mean test MAE.*?</table>", text, re.S)
    assert len(tables) == 2
    rows = re.findall(r"<tr>(<td>.*?)</tr>", tables[0], re.S)
    assert len(rows) == 3 * 4
    cells = re.findall(r"<td>(.*?)</td>", rows[5])
    assert cells[:2] == ["2", "without the guarantee"]
    expected = [2 * (1 + 8 * (width - width**2)) for width in WIDTHS]
    assert cells[2:] == [f"{value:.2f}" for value in expected]


def test_the_page_has_evidence_for_each_difference(text):
    for evidence in ("0.00115625", "5,208", "3.875 times", "0.0100", "the largest change is 0"):
        assert evidence in text


def test_a_page_of_nothing_is_written(tmp_path, results):
    path = report.write_report(tmp_path, results[:0], {}, {})
    content = path.read_text(encoding="utf8")
    assert not Page(content).open
    assert "No trials are in this run yet." in content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figures", "report.html"]
