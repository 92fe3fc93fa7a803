"""Versions follow the changelog: what CONTRIBUTING says of a release."""

import re
from importlib import metadata
from pathlib import Path

from lowest_versions import lowest_versions
from packaging.requirements import Requirement
from packaging.version import Version

from atlas_splines import __version__

ROOT = Path(__file__).parents[1]
HEADINGS = re.findall(
    r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf8"), re.M
)


def test_the_version_is_that_of_the_newest_heading():
    (newest, date), released = HEADINGS[0], [Version(name) for name, _ in HEADINGS if name != "Unreleased"]
    version = Version(__version__)
    if newest == "Unreleased":
        assert version.is_devrelease
        assert not date
        assert all(version > other for other in released)
    else:
        assert (newest, version.is_devrelease) == (__version__, False)


def test_releases_have_dates_and_descend():
    released = [(Version(name), date) for name, date in HEADINGS if name != "Unreleased"]
    assert released == sorted(released, reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d{2}-\d{2}", date) for _, date in released)


def test_the_citation_has_the_same_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf8")


def test_every_dependency_has_a_lowest_version():
    """Those of the newest environment satisfy them, and `make lowest` tries them."""
    found = [Requirement(line) for line in lowest_versions()]
    known = [Requirement(line) for line in metadata.requires("atlas-splines")]
    assert {each.name for each in found} == {each.name for each in known if each.marker is None}
    for each in found:
        (bound,) = each.specifier
        assert Version(bound.version) <= Version(metadata.version(each.name))
