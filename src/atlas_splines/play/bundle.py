"""A bundler: the playground as one page, from its template, its style sheet and its modules of JavaScript.

Modules are concatenated in topological order of imports. The modules of the worker are one script of the
page, from which the worker is started as a blob: so the page also works from the file system, where a browser
loads nothing else. Documentation comments are left out: they would be an eighth of the page. It takes
milliseconds, so the page is assembled when it is requested, and never stored beside its sources.

Run `python -m atlas_splines.play.bundle playground.html` for a file that works without a server.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["assembled_page", "write_page"]

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "source"

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)
DOCUMENTATION = re.compile(r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n", re.MULTILINE)  # whole lines only
NAME = re.compile(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", re.MULTILINE)


def assembled_page() -> str:
    """The text of the page."""
    engine = modules_below("worker.js")
    page = [name for name in modules_below("main.js") if name not in engine]
    check_names([*engine, *page])
    page_text = (FOLDER / "page.template.html").read_text(encoding="utf8")
    for mark, text in (
        ("/* style */", (FOLDER / "page.css").read_text(encoding="utf8")),
        ("/* engine */", joined(engine)),
        ("/* page */", joined(page)),
    ):
        if page_text.count(mark) != 1:
            raise ValueError(f"page.template.html must have {mark} once")
        page_text = page_text.replace(mark, text)
    return page_text


def modules_below(name: str, found: tuple[str, ...] = ()) -> list[str]:
    """Depth-first topological order of a module and its imports: each module after those it imports."""
    order = list(found)
    for needed in IMPORT.findall(read_module(name)):
        if needed not in order:
            order = modules_below(needed, tuple(order))
    return [*order, name]


def read_module(name: str) -> str:
    """The text of a module."""
    return (SOURCE / name).read_text(encoding="utf8")


def joined(names: list[str]) -> str:
    """Modules as one script in one scope: without imports, exports and documentation comments."""
    texts = (DOCUMENTATION.sub("", plain_script(name)) for name in names)
    return "\n".join(text.strip() + "\n" for text in texts)


def plain_script(name: str) -> str:
    """The text of a module without imports and exports."""
    return EXPORT.sub("", IMPORT.sub("", read_module(name)))


def check_names(names: list[str]) -> None:
    """Refuse modules that break once they share a scope and a script element."""
    owner: dict[str, str] = {}
    for name in names:
        text = plain_script(name)
        if re.search(r"^(?:import|export)\b", text, re.MULTILINE):
            raise ValueError(f"{name} imports or exports in a way that cannot be joined; use plain names")
        if "</script" in text:
            raise ValueError(f"{name} has </script in it, which would end the script; write it in two parts")
        for top in NAME.findall(text):
            if top in owner:
                raise ValueError(f"{top} is a name in both {owner[top]} and {name}; rename one of them")
            owner[top] = name


def write_page(path: Path) -> None:
    """Write the page to a file, which works without a server."""
    path.write_text(assembled_page(), encoding="utf8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the file of the page: python -m atlas_splines.play.bundle playground.html")
    write_page(Path(sys.argv[1]))
