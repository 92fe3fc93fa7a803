"""The `atlas` command: its options in `app`, and a module for each command.

May import every folder; nothing imports it. The only folder that imports typer. `app` and `output` load
nothing heavy, and `app` imports a command's module when that command runs.
"""
