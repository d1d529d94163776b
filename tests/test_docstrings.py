"""Docstrings of all public names: what they take, what they return, and an example."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", REFERENCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = loaded()


def section(doc: str, name: str) -> str | None:
    """Return the text under a heading, up to the next one."""
    found = re.search(
        rf"^{name}\n-{{{len(name)}}}\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n---|\Z)", doc, re.DOTALL | re.MULTILINE
    )
    return None if found is None else found[1]


def takes(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def lacks_of_function(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the sections and the parameters that are not in the docstring of a function or method."""
    doc, returned = inspect.getdoc(function), inspect.signature(function).return_annotation
    if not doc:
        yield "a docstring"
        return
    told = section(doc, "Parameters") or ""
    lines = [line.partition(" :")[0] for line in told.splitlines() if not line.startswith(" ")]
    named = {name.lstrip("*") for line in lines for name in line.split(", ")}
    yield from (name for name in takes(function) if name not in named)
    answers = returned not in (None, "None", inspect.Signature.empty)
    if takes(function) and answers and not (section(doc, "Returns") or section(doc, "Yields")):
        yield "Returns"


def methods_of(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the methods that the pages of the reference show, inherited ones of the package too."""
    hidden, found = set(reference._internal(cls)), dict[str, Callable[..., Any]]()
    for base in cls.__mro__:
        for name, value in vars(base).items() if base.__module__.startswith("accams") else ():
            method = getattr(cls, name) if isinstance(value, (classmethod, staticmethod)) else value
            if (inspect.isfunction(method) or inspect.ismethod(method)) and name[0] != "_" and name not in hidden:
                found.setdefault(name, method)
    return found


def lacks_of_class(cls: type) -> Iterator[str]:
    doc = inspect.getdoc(cls) or ""
    if takes(cls) and not (section(doc, "Parameters") or section(doc, "Attributes")):
        yield "Parameters"
    for name, method in methods_of(cls).items():
        yield from (f"{name}: {what}" for what in lacks_of_function(method))


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_says_what_it_takes_and_returns_and_has_an_example(module: str) -> None:
    lacking = dict[str, list[str]]()
    for name in reference.public_names(importlib.import_module(module)):
        value = getattr(importlib.import_module(module), name)
        if reference._kind(value) in ("Classes", "Functions"):
            lacks = list((lacks_of_class if inspect.isclass(value) else lacks_of_function)(value))
            example = section(inspect.getdoc(value) or "", "Examples") or ""
            lacks += [] if ">>>" in example else ["Examples"]
            lacking |= {name: lacks} if lacks else {}
    assert not lacking
