import pytest
from browser import Page, open_browser


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    browser = open_browser(tmp_path_factory.mktemp("browser"))
    yield Page(browser)
    browser.quit()
