"""How Sphinx builds the manual: `make docs`, warnings are errors.

Pages are Markdown (MyST), names come from docstrings (numpydoc), and tutorials and pictures are scripts that
are run while the manual is built (sphinx-gallery): they cannot grow old unnoticed, and become notebooks too.
All of it works without a network: formulas become MathML here, which browsers draw by themselves.
"""

import re
from html import escape
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

from atlas_splines import __version__
from atlas_splines.play.bundle import write_page

project = "atlas-splines"
author = copyright = "The atlas-splines authors"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["**/*.ipynb", "**/*.py", "**/GALLERY_HEADER.rst", "arena/table.md"]
html_theme = "pydata_sphinx_theme"
html_title = f"atlas-splines {version}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_sidebars = {"index": []}
highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # numpydoc lists parameters with their types
toc_object_entries_show_parents = "hide"
default_role = "code"  # what stands in single quotes in docstrings
numpydoc_show_class_members = False  # the template of a class lists them
nitpick_ignore_regex = [("py:.*", r"(?!atlas_splines).*")]  # names of other packages

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/ideas"],
    "gallery_dirs": ["tutorials", "ideas"],
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "image_srcset": ["2x"],
}


def check_extras(app: Sphinx) -> None:
    """Modules that need an extra are in the manual too, so it has to be there."""
    missing = [name for name in ("torch", "distributed", "river") if find_spec(name) is None]
    if missing:
        raise SystemExit(f"the manual needs {' and '.join(missing)}; install it with: pip install '.[docs]'")


def formula(self: nodes.NodeVisitor, node: nodes.Element) -> None:
    """A formula as MathML, with its number beside it."""
    latex = node.astext()
    number = re.search(r"\\tag\{(\w+)\}", latex)
    block = isinstance(node, nodes.math_block)
    text = convert(re.sub(r"\\tag\{\w+\}", "", latex).strip(), display="block" if block else "inline")
    if block:
        label = f'<span class="number">({escape(number[1])})</span>' if number else ""
        text = f'<div class="formula">{text}{label}</div>'
    self.body.append(text)
    raise nodes.SkipNode


def link_pages(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings name pages as files of the repository, `docs/math.md`: here they are links."""
    lines[:] = [re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`/\1`", line) for line in lines]


def add_playground(app: Sphinx, failure: Exception | None) -> None:
    """The playground is embedded in its page."""
    if failure is None and app.builder.format == "html":
        write_page(Path(app.outdir) / "_static" / "page.html")


def setup(app: Sphinx) -> None:
    """Tell Sphinx of the functions above."""
    app.connect("builder-inited", check_extras)
    app.connect("build-finished", add_playground)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("autodoc-process-docstring", link_pages)
