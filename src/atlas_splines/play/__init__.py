"""The playground: one self-contained page in which seven learners are updated and compared.

Holds the page's template and style sheet, plain JavaScript in `source`, and `bundle`, which assembles them.
May import no other folder; only `cli` imports it, and serves the page.
"""
