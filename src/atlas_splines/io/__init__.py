"""Serialisation: `save` and `load` of models, estimators and table models as parts of an archive.

Imports `files` and everything that can be saved. A new field of a file is written and read here. Keys of the
format keep the words of its first version: "evidence" is the memory, "voice" the output mode, "bumps" radial
basis functions, "fence" a window, "faded" decayed, "track" expert weights, "spread" the error model,
"presence" the data density.
"""
