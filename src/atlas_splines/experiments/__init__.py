"""The paper's experiments and the arena of methods, which do not import each other, and what they share.

`boxes`: random targets with local changes. `jobs`: resumable runs of many small jobs. `style`: the look of
figures. `drawings`: a figure as a record. `page`: a report as one HTML page. May import public names and
`plots`, and the arena `tables`; only `cli` and the facades `atlas_splines.paper` and `atlas_splines.arena`
import it.
"""
