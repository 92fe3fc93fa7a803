"""`save` and `load`: models, estimators and table models as the parts of an archive.

Imports `files` and everything that can be saved. A new field of a file is written and read here.
"""
