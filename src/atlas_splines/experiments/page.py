"""A report as one HTML page that needs no other file: sections, figures, tables and lists."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, NamedTuple

from atlas_splines.experiments.drawings import Drawing, Saved

__all__ = ["Section", "bullets", "facts_html", "figures_html", "page_html", "table_html"]


class Section(NamedTuple):
    """A part of a page; its content is HTML."""

    anchor: str
    title: str
    content: str


def page_html(name: str, heading: str, introduction: str, sections: Iterable[Section], css: str = "") -> str:
    """Put a page together; the introduction is HTML, and `css` is added to the common style."""
    parts = list(sections)
    links = " · ".join(f'<a href="#{part.anchor}">{escape(part.title)}</a>' for part in parts)
    body = "\n".join(
        f'<section id="{part.anchor}"><h2>{escape(part.title)}</h2>\n{part.content}</section>'
        for part in parts
    )
    return PAGE.format(
        name=escape(name),
        style=CSS + css,
        heading=escape(heading),
        introduction=introduction,
        links=links,
        body=body,
    )


def figures_html(
    drawings: Iterable[Drawing[Any]], saved: Mapping[str, Saved], section: str, *, links: bool
) -> str:
    """The figures of a section, with links to their files if the page lies beside them."""
    return "\n".join(
        figure_html(drawing, saved[drawing.name], links)
        for drawing in drawings
        if drawing.section == section and drawing.name in saved
    )


def figure_html(drawing: Drawing[Any], saved: Saved, links: bool) -> str:
    """One figure with its caption, its image inside the page."""
    image, name = base64.b64encode(saved.png).decode("ascii"), drawing.name
    caption = escape(drawing.caption)
    if drawing.beside:
        caption += f' <span class="beside">Beside the paper&#x27;s {escape(drawing.beside)}.</span>'
    if links:
        caption += f' <a href="figures/{name}.svg">SVG</a> <a href="figures/{name}.png">PNG</a>'
    return (
        f'<figure id="{name}"><h3>{escape(drawing.title or saved.headline)}</h3>\n'
        f'<img src="data:image/png;base64,{image}" alt="{escape(saved.headline)}">\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def bullets(sentences: Iterable[str]) -> str:
    """A list of sentences; nothing if there are none."""
    items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>\n{items}</ul>\n" if items else ""


def facts_html(facts: Mapping[str, str]) -> str:
    """What is known about the run, as a table of two columns."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>\n" for k, v in facts.items())
    return f'<table class="facts">\n{rows}</table>\n' if rows else ""


def table_html(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are already escaped."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption>\n"
        f"<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>\n"
    )


CSS = """
body { max-width: 940px; margin: 2em auto; padding: 0 1em; color: #1a1a1a; background: #fff;
       font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { line-height: 1.2; margin-bottom: 0.2em; }
h2 { margin-top: 2.5em; border-bottom: 2px solid #0072b2; padding-bottom: 0.2em; }
h3 { margin: 0 0 0.4em; font-size: 1.05em; }
a { color: #005a8d; }
figure { margin: 2em 0; padding-top: 1em; border-top: 1px solid #ddd; }
figure img { width: 100%; height: auto; }
figcaption { font-size: 0.92em; color: #333; }
.beside { color: #666; }
table { border-collapse: collapse; margin: 1.5em 0; font-size: 0.85em; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding-bottom: 0.4em; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25em 0.6em; text-align: right; vertical-align: top; }
thead th { border-bottom: 2px solid #999; }
.facts th, .facts td, .text th, .text td, td:nth-child(2) { text-align: left; }
@media print { body { max-width: none; font-size: 11pt; } figure, tr { break-inside: avoid; }
               nav { display: none; } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{style}</style>
</head>
<body>
<h1>{heading}</h1>
<p>{introduction}</p>
<nav>{links}</nav>
{body}
</body>
</html>
"""
