"""CSV and Parquet as people have them: reading, cells, samples, writing, and how columns become inputs.

Imports `core` and `files`. The only folder that imports pyarrow.
"""
