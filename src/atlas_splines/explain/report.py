"""A report of one row: a page of HTML that a caseworker can read, with nothing to load from elsewhere."""

from __future__ import annotations

from html import escape

import numpy as np

from atlas_splines.explain.explanation import Blame, Explanation, text_of

__all__ = ["row_report"]

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25em .5em;text-align:left}"
    "td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "tr{border-bottom:1px solid #ddd}.bar{display:inline-block;height:.8em;vertical-align:middle}"
    ".up{background:#d55e00}.down{background:#0072b2}.zero{width:50%}.l{text-align:right}"
    "strong{font-size:1.4em}footer{color:#666;font-size:.85em;margin-top:2em}"
)
MOST_ROWS = 10  # known rows that are listed
WIDEST = 100  # of a bar, in per cent of its half of a cell


def row_report(explanation: Explanation, blame: Blame | None = None, title: str = "") -> str:
    """A report on one row as HTML.

    Parameters
    ----------
    explanation
        Of one row and one output.
    blame
        Of the same row; without it updates are left out.
    title
        What the row is.

    Examples
    --------
    >>> found = Explanation(np.array([[1.0]]), np.array([2.0]), np.array([[5.0]]), ["size"])
    >>> page = row_report(found, title="a home")
    >>> "<strong>3</strong>" in page, "size" in page
    (True, True)
    """
    if len(explanation) != 1:
        raise ValueError(f"a report is of one row, and this explanation has {len(explanation)}; choose one")
    if explanation.output_names:
        parts = [_columns(explanation.of_output(k), name) for k, name in enumerate(explanation.output_names)]
    else:
        parts = [_columns(explanation, "")]
    if blame is not None and np.ndim(blame.base_values[0]) == 0:
        parts.append(_updates(blame))
    exact = (
        "The numbers are exact: they add up to the prediction."
        if explanation.is_exact
        else "The numbers are estimates that add up to the prediction."
    )
    footer = f"Each property is compared with {escape(explanation.background)}. {exact}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title or 'Explanation')}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(title or 'Explanation')}</h1>{''.join(parts)}<footer>{footer}</footer></body></html>\n"
    )


def _columns(found: Explanation, name: str) -> str:
    """Which properties of the row raise or lower its prediction."""
    values = found.of_alone().values[0]
    predicted, base = float(found.predictions[0]), float(found.base_values[0])
    order = np.argsort(-np.abs(values), kind="stable")
    largest = max(float(np.abs(values).max()), 1e-300)
    rows = "".join(
        _line(f"{found.feature_names[j]}: {text_of(found.data[0, j])}", float(values[j]), largest)
        for j in order.tolist()
    )
    of = f" of {name}" if name and name not in found.unit else ""
    above = "above" if predicted >= base else "below"
    return (
        f"<p>The {escape(found.unit)}{escape(of)} is "
        f"<strong>{predicted:.4g}</strong>, which is {abs(predicted - base):.4g} {above} the average of "
        f"{base:.4g}.</p><h2>What raises and lowers it</h2><table>{rows}</table>"
    )


def _updates(blame: Blame) -> str:
    """Which contributions, and which known rows, the prediction comes from."""
    values = blame.values[0]
    largest = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    rows = "".join(
        _line(name, float(value), largest) for name, value in zip(blame.names, values, strict=True)
    )
    found = (
        f"<h2>What it was learned from</h2><p>From {float(blame.base_values[0]):.4g}, these add up to the "
        f"prediction, up to {abs(float(blame.rest[0])):.2g} of rounding and of what is no longer kept.</p>"
        f"<table>{rows}</table>"
    )
    if blame.row_values is None or blame.row_updates is None or blame.row_numbers is None:
        return found
    each = zip(blame.row_values[0], blame.row_updates[0], blame.row_numbers[0], strict=True)
    strongest = sorted(each, key=lambda row: -abs(row[0]))[:MOST_ROWS]
    most = max(abs(float(strongest[0][0])), 1e-300) if strongest else 1.0
    known = "".join(
        _line(
            f"row {number + 1} of {f'update {update}' if update else 'the first data'}"
            if number >= 0
            else f"a row of {f'update {update}' if update else 'the first data'}",
            float(value),
            most,
        )
        for value, update, number in strongest
    )
    return f"{found}<h2>The known rows that count most</h2><table>{known}</table>"


def _line(text: str, value: float, largest: float) -> str:
    """A line of a table: words, a number, and a bar to the left or to the right."""
    width = WIDEST * abs(value) / largest / 2
    bar = f'<span class="bar {"up" if value > 0 else "down"}" style="width:{width:.1f}%"></span>'
    empty = f'<span class="bar" style="width:{50 - width:.1f}%"></span>'
    half = '<span class="bar zero"></span>'
    drawn = half + bar if value > 0 else empty + bar
    return (
        f'<tr><td>{escape(text)}</td><td class="n">{value:+.4g}</td><td style="width:40%">{drawn}</td></tr>'
    )
