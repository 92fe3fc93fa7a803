"""The `atlas` command: its options, and a file for each thing it does.

May import every folder; nothing imports it. The only folder that imports typer.
"""
