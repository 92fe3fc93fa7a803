"""The page, made of its template, its style and its modules of JavaScript.

Modules are joined in the order of their imports. What the worker needs is one script of the page, which the
worker is made from as well: so the page also works from the file system, where pages may load nothing else.
Comments of documentation stay in the modules: they would be an eighth of the page.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGE", "assembled_page"]

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page.html"
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
    """A module and all that it imports, each after those that it needs itself."""
    order = list(found)
    for needed in IMPORT.findall(read_module(name)):
        if needed not in order:
            order = modules_below(needed, tuple(order))
    return [*order, name]


def read_module(name: str) -> str:
    """The text of a module."""
    return (SOURCE / name).read_text(encoding="utf8")


def joined(names: list[str]) -> str:
    """Modules as one script: without imports and exports, since all of them share their names."""
    texts = (DOCUMENTATION.sub("", plain_script(name)) for name in names)
    return "\n".join(text.strip() + "\n" for text in texts)


def plain_script(name: str) -> str:
    """The text of a module without imports and exports."""
    return EXPORT.sub("", IMPORT.sub("", read_module(name)))


def check_names(names: list[str]) -> None:
    """Refuse what would not work once modules are joined."""
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


if __name__ == "__main__":
    PAGE.write_text(assembled_page(), encoding="utf8", newline="\n")
