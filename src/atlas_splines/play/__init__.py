"""The playground: one self-contained page that shows memory. It imports no other folder; `cli` serves it.

`page.html` is made of `page.template.html`, `page.css` and the modules in `source` by `bundle.py`; run
`python -m atlas_splines.play.bundle` after a change to any of them.
"""
