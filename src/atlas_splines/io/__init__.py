"""Serialisation: `save` and `load`, the codecs of every type that a file holds, and upgrades of older files.

May import `model` to `estimators`. A new field of a file is written and read here.
"""
