"""The paper's experiments and the arena, which do not know each other, and what they share.

boxes: random targets and what changes in them. jobs: long runs that go on where they were stopped. style: the
look of figures. drawings: a figure as a record. page: a report as one page. They use public names and
`plots`, and the arena uses `tables`. Only the command imports them, and the faces `atlas_splines.paper` and
`atlas_splines.arena`.
"""
