import pytest

from atlas_splines.play import bundle


def test_every_module_is_in_the_page_once():
    page = bundle.assembled_page()
    assert len(page.encode()) < 300_000
    for module in bundle.SOURCE.glob("*.js"):
        assert page.count(bundle.joined([module.name])) == 1, module.name


def test_the_page_is_written_to_the_file_that_is_named(tmp_path):
    bundle.write_page(tmp_path / "playground.html")
    assert (tmp_path / "playground.html").read_text(encoding="utf8") == bundle.assembled_page()


def test_only_whole_lines_of_documentation_are_left_out():
    text = "/** What\n * it does. **/\nlet a = 1; /** kept */\n  /** @returns {number} */\n  /* kept */\nlet b;\n"
    assert bundle.DOCUMENTATION.sub("", text) == "let a = 1; /** kept */\n  /* kept */\nlet b;\n"


def test_the_page_asks_no_network():
    page = bundle.assembled_page()
    assert "http://" not in page
    assert "https://" not in page
    assert "src=" not in page.replace("-src", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("export default 1;\n", "imports or exports in a way"),
        ("const TABS = 1;\n", "TABS is a name in both"),
        ('const other = "</script>";\n', "</script in it"),
    ],
)
def test_modules_that_cannot_be_joined_are_refused(text, message, monkeypatch):
    read = bundle.read_module
    monkeypatch.setattr(
        bundle, "read_module", lambda name: read(name) + (text if name == "client.js" else "")
    )
    with pytest.raises(ValueError, match=message):
        bundle.assembled_page()
