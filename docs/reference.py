"""Write the pages of the API reference from the public names of the package.

``conf.py`` calls `write` before Sphinx reads any page: a name that is added to an ``__all__`` gets its page
without further work. Only the package itself is needed, so the tests can check the pages without Sphinx.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

MODULES = (
    "accams",
    "accams.data.datasets",
    "accams.data.splits",
    "accams.data.planted",
    "accams.data.eventlog",
    "accams.metrics",
    "accams.baselines",
    "accams.batch",
    "accams.report",
    "accams.explore",
    "accams.serve",
    "accams.theory",
)
KINDS = ("Classes", "Functions", "Exceptions", "Data")
DIRECTIVES = {"Classes": "autoclass", "Functions": "autofunction", "Exceptions": "autoexception", "Data": "autodata"}


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: its ``__all__``, else the functions and classes it defines."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name
            for name, value in vars(module).items()
            if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__
        ]
    return sorted(name for name in listed if not name.startswith("_"))


def sequences() -> list[str]:
    """Return the public classes that are sequences, by the names under which they are defined and documented."""
    found = list[str]()
    for module in map(importlib.import_module, MODULES):
        for name in public_names(module):
            cls = getattr(module, name)
            if inspect.isclass(cls) and issubclass(cls, (tuple, Sequence)):
                found += [f"{cls.__module__}.{cls.__qualname__}", f"{module.__name__}.{name}"]
    return found


def write(folder: Path) -> list[Path]:
    """Write one page per public name, one per module and an index into a folder, and return their paths.

    Files whose text is the same are left alone, so that Sphinx only reads again what has changed; pages of
    names that are gone are removed.
    """
    pages = {"index.rst": _index(MODULES)}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        names = public_names(module)
        kinds = {name: _kind(getattr(module, name)) for name in names}
        pages[f"{module_name}.rst"] = _module_page(module_name, kinds)
        for name, kind in kinds.items():
            if kind != "Modules":
                pages[f"{_page_name(module_name, name, kinds)}.rst"] = _name_page(module_name, name, kind)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in set(folder.glob("*.rst")) - {folder / name for name in pages}:
        stale.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def _kind(value: object) -> str:
    if inspect.ismodule(value):
        return "Modules"
    if inspect.isclass(value):
        return "Exceptions" if issubclass(value, Exception) else "Classes"
    return "Functions" if callable(value) else "Data"


def _index(modules: Iterable[str]) -> str:
    return _page("API reference", "Every public name of the package, by module.", _toctree(modules))


def _module_page(module: str, kinds: dict[str, str]) -> str:
    parts = [f".. automodule:: {module}", f".. currentmodule:: {module}"]
    for kind in KINDS:
        names = [name for name, its_kind in kinds.items() if its_kind == kind]
        if names:
            parts += [_heading(kind, "-"), _block(".. autosummary::", [":nosignatures:", "", *names])]
    pages = [_page_name(module, name, kinds) for name, kind in kinds.items() if kind != "Modules"]
    parts.append(_toctree(pages, ":hidden:"))
    return _page(module, *parts)


def _name_page(module: str, name: str, kind: str) -> str:
    options = list[str]()
    if kind == "Classes":
        options = [":members:", ":inherited-members: Exception, dict, list, tuple, Sequence"]
        hidden = _internal(getattr(importlib.import_module(module), name))
        options += [f":exclude-members: {', '.join(hidden)}"] if hidden else []
    return _page(name, _block(f".. {DIRECTIVES[kind]}:: {module}.{name}", options))


def _internal(cls: type) -> list[str]:
    """Return the members of a class that serve the package itself: of `Parts` all but the parts, checks of settings."""
    named = set(getattr(cls, "__dataclass_fields__", ())) | {"shape"}
    inner = {name for base in cls.__mro__ if base.__name__ == "Parts" for name in vars(base)} - named
    checks = {"check_params", "changed_params"} & set(dir(cls))
    return sorted(name for name in inner | checks if not name.startswith("_"))


def _page_name(module: str, name: str, kinds: dict[str, str]) -> str:
    # `Biases` and `biases` would be one file where case does not count in file names.
    clash = any(other != name and other.lower() == name.lower() for other in kinds)
    return f"{module}.{name}" + ("-class" if clash and kinds[name] == "Classes" else "")


def _toctree(entries: Iterable[str], *options: str) -> str:
    return _block(".. toctree::", [":maxdepth: 1", *options, "", *entries])


def _block(directive: str, lines: list[str]) -> str:
    return "\n".join([directive, *(f"   {line}".rstrip() for line in lines)])


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}"


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([_heading(title, "="), *parts]) + "\n"
