"""Tables of any size as rows of numbers: sources, sampling, type inference, encoding, writing.

May import `model` and `files`. The only folder that imports pyarrow.
"""
