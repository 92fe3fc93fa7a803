"""Style of figures: shared colours and sizes."""

__all__ = [
    "ACCENT",
    "CHANGE_COLOURS",
    "DPI",
    "FAINT",
    "LANE_COLOUR",
    "LINE_COLOURS",
    "MAIN",
    "PICTURES",
    "QUIET",
    "REVERTED",
    "RUG_HEIGHT",
    "VALUE_COLOURS",
]

VALUE_COLOURS = "cividis"  # colour-blind safe, and monotone in grey
CHANGE_COLOURS = "Greys"  # how large a change is: white means none at all

MAIN = "#0072b2"
ACCENT = "#d55e00"
QUIET = "#777777"
FAINT = "#dddddd"  # lines over what is dimmed
REVERTED = "#f2c4a0"  # a reverted update: the accent, pale
LANE_COLOUR = "#f3f3f3"  # behind the bars of a column
LINE_COLOURS = (MAIN, ACCENT, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

RUG_HEIGHT = 0.1  # share of the height for marks of the data at the bottom
DPI = 110  # of pictures that are saved
PICTURES = (".png", ".svg", ".pdf")  # what their names may end in
