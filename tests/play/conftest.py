import pytest
from browser import Page, open_browser

from atlas_splines.play.bundle import write_page


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    browser = open_browser(tmp_path_factory.mktemp("browser"))
    file = tmp_path_factory.mktemp("page") / "playground.html"
    write_page(file)
    yield Page(browser, file.as_uri())
    browser.quit()
