"""`atlas serve`: a model that answers, learns and is undone over HTTP."""

from __future__ import annotations

import logging
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from atlas_splines.cli.files import check_folder, check_there
from atlas_splines.cli.output import Facts, Failed, Say

__all__ = ["serve_model"]


def serve_model(
    path: Path,
    *,
    host: str,
    port: int,
    token_file: Path | None,
    read_only: bool,
    pending: int,
    allow_host: Sequence[str],
    contract: Path | None = None,
    browser: bool = False,
    echo: Say,
    note: Say,
    report: Callable[[Facts], None],
) -> None:
    """Serve a model until the process is told to end.

    Parameters
    ----------
    path
        The file of the model, which every update replaces.
    host, port
        Where to listen; port 0 takes one that is free.
    token_file
        A file with the token that changes need, and everything on another address than the loopback.
    read_only
        Whether the file is only followed.
    pending
        How many predictions may wait for their targets.
    allow_host
        Names by which the service may be asked.
    contract
        A file of rules that every update must keep.
    browser
        Whether to open the page of its life in a browser.
    echo, note
        Print a line, and one on standard error.
    report
        Gives the address as JSON.
    """
    check_there(path)
    if not read_only:
        check_folder(path)
    try:
        from atlas_splines.serve.app import Application
        from atlas_splines.serve.contract import Contract
        from atlas_splines.serve.guard import Access, is_loopback
        from atlas_splines.serve.requests import Limits
        from atlas_splines.serve.server import bound, run, token_in
        from atlas_splines.serve.store import Store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "prometheus_client", "anyio"):
            raise
        needs = "serving needs more packages; install them with: pip install 'atlas-splines[serve]'"
        raise Failed(needs) from None
    if contract is not None and read_only:
        raise Failed("--contract is about updates, which --read-only does not make; leave one of them out")
    rules = None if contract is None else Contract.read(contract)
    token = None if token_file is None else token_in(token_file)
    names = frozenset(name.lower() for name in (host, *allow_host))
    access = Access(token, everywhere=not is_loopback(host), hosts=names)
    listening = bound(host, port, access)
    with listening:
        limits = Limits()
        store = Store(path, read_only=read_only, pending=pending, contract=rules)
        for line in [] if rules is None else rules.broken_by(store.snapshot):
            note(f"Warning: updates will be refused, since the model breaks a rule already: {line}")
        app = Application(store, limits)
        logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        version = app.store.snapshot.version
        echo(f"{path} is served at {address} as version {version[:12]}; Ctrl-C ends.")
        report({"address": address, "version": version, "read_only": read_only})
        if browser:
            webbrowser.open(address)  # which waits for the answer
        run(app, listening, access, limits)
