"""Settings as dataclass fields: a default, a kind and a sentence of documentation, written once.

`@settings` turns a class whose attributes are made by `setting` into a dataclass, writes the *Parameters* section of
its docstring, and gives it `get_params` and `set_params` as scikit-learn has them, into nested records too.
"""

import dataclasses
import functools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Self, TypeVar, dataclass_transform

from accams.errors import InputError, warn
from accams.settings.kinds import Instance, Kind

C = TypeVar("C", bound=type[Any])
FORMER_WORDS = ("gibbs", "backfit")  # values of `schedule` before it became a record
SECTIONS = ("Attributes", "Returns", "See Also", "Notes", "Examples")  # of a docstring, after its parameters


def setting(kind: Kind, doc: str, *, default: Any, kw_only: bool = True, flag: str = "", brief: str = "") -> Any:
    """Declare one setting.

    Parameters
    ----------
    kind : Kind
        Which values are allowed.
    doc : str
        For the docstring and for ``accams fit --help-all``.
    default : object
    flag : str
        Its option, such as ``"--stencils -s"``; by default its name; "-" for none.
    brief : str
        A few words for ``accams fit --help``, if it is to be shown there.
    """
    metadata = {"kind": kind, "doc": doc, "flag": flag, "brief": brief}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


class Settings:
    """Base class: settings by name, checked, read and changed."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name; with `deep`, those of nested records too, as ``record__name``.

        Parameters
        ----------
        deep : bool, default True

        Returns
        -------
        dict
        """
        params: dict[str, Any] = {}
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            params[each.name] = getattr(self, each.name)
            record = nested(each)
            if deep and record is not None:
                value = params[each.name]
                inner = (value if isinstance(value, record) else record()).get_params()  # fit refuses others
                params.update({f"{each.name}__{name}": value for name, value in inner.items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; ``record__name`` changes one of a nested record.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self
        """
        known, moved = self.get_params(), getattr(type(self), "_moved", {})
        for name, value in params.items():
            if name in moved and not _is_record(self, name, value):
                _warn_moved(type(self), {name: moved[name]})
                self.set_params(**self._translate_moved({moved[name]: value}))
                continue
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}{nearest(name, known)}. "
                    f"Valid parameters are: {sorted(known)!r}."
                )
            outer, _, inner = name.partition("__")
            if inner:
                record = nested(type(self).__dataclass_fields__[outer])  # type: ignore[attr-defined]
                assert record is not None
                old = getattr(self, outer)
                value = dataclasses.replace(old if isinstance(old, record) else record(), **{inner: value})
            setattr(self, outer, value)
        return self

    def check_params(self) -> None:
        """Raise InputError for the first setting that is not of its kind."""
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            each.metadata["kind"].check(each.name, value)
            if isinstance(value, Settings):
                value.check_params()

    def _translate_moved(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return parameters that have moved under their new names, with values as those take them."""
        return params

    def changed_params(self) -> dict[str, Any]:
        """Return the settings that are not at their defaults."""
        given = {each.name: (getattr(self, each.name), each.default) for each in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: value for name, (value, default) in given.items() if not same(value, default)}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed_params().items())})"
        )


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
def settings(*, frozen: bool = False, moved: Mapping[str, str] | None = None) -> Callable[[C], C]:
    """Make a class of settings.

    Parameters
    ----------
    frozen : bool
        Whether instances are immutable records.
    moved : mapping, optional
        Former keyword arguments, each with its new place, such as ``{"eta": "priors__eta"}``: they work for one more
        release, with a FutureWarning.
    """

    def decorate(cls: C) -> C:
        made = dataclasses.dataclass(frozen=frozen, eq=frozen, repr=False)(cls)
        made.__doc__ = with_parameters(cls.__doc__ or "", made)
        if moved:
            made._moved = dict(moved)
            made.__init__ = _taking_moved(made.__init__, dict(moved))
        return made  # type: ignore[return-value]

    return decorate


def nested(each: dataclasses.Field[Any]) -> type[Any] | None:
    """Return the class of a field that holds a record of settings, or None."""
    kind = each.metadata["kind"]
    return kind.cls if isinstance(kind, Instance) and issubclass(kind.cls, Settings) else None


def every(cls: type[Any], prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Iterate over all settings of a class, those of nested records as ``record__name``."""
    for each in dataclasses.fields(cls):
        record = nested(each)
        if record is None:
            yield prefix + each.name, each
        else:
            yield from every(record, f"{each.name}__")


def with_parameters(doc: str, cls: type[Any]) -> str:
    """Return a docstring with its *Parameters* section, before all other sections."""
    lines = ["Parameters", "----------"]
    for each in dataclasses.fields(cls):
        lines.append(f"{each.name} : {each.metadata['kind'].type}, default {each.default!r}")
        lines += textwrap.wrap(each.metadata["doc"], 108, initial_indent="    ", subsequent_indent="    ")
    section = textwrap.indent("\n".join(lines), "    ") + "\n\n"
    places = [doc.find(f"    {name}\n    ---") for name in SECTIONS]
    at = min((place for place in places if place >= 0), default=-1)
    return f"{doc.rstrip()}\n\n{section}" if at < 0 else doc[:at] + section + doc[at:]


def nearest(name: str, known: Any) -> str:
    """Return "; did you mean ...?" for the known name most like a wrong one, or nothing."""
    names = {each.rpartition("__")[2]: each for each in known} | {each: each for each in known}
    near = get_close_matches(name, names, 1, 0.6)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def same(value: Any, default: Any) -> bool:
    """Return whether a value is the default: of one type and equal."""
    try:
        return bool(value is default or (type(value) is type(default) and value == default))
    except ValueError:  # arrays
        return False


def place_moved(given: dict[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments with those that have moved put into their records (as ``record__name``)."""
    return {moved.get(name, name): value for name, value in given.items()}


def _taking_moved(init: Callable[..., None], moved: Mapping[str, str]) -> Callable[..., None]:
    """Wrap `__init__` so that former keyword arguments end up in the records they have moved to."""

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **given: Any) -> None:
        old = {name: value for name, value in given.items() if name in moved and not _is_record(self, name, value)}
        init(self, *args, **{name: value for name, value in given.items() if name not in old})
        if old:
            _warn_moved(type(self), {name: moved[name] for name in old})
            self.set_params(**self._translate_moved({moved[name]: value for name, value in old.items()}))

    return wrapped


def _warn_moved(cls: type[Any], old: Mapping[str, str]) -> None:
    hints = ", ".join(f"{name} (now {place.replace('__', '.')})" for name, place in old.items())
    text = f"deprecated parameters of {cls.__name__}, to be removed in 0.3: {hints}"
    warn(text, FutureWarning)


def _is_record(obj: Any, name: str, value: Any) -> bool:
    """Return whether an argument is meant as a record under a name that used to take a word."""
    return name in type(obj).__dataclass_fields__ and not (isinstance(value, str) and value in FORMER_WORDS)


def require(given: Mapping[str, Any], known: Any, what: str) -> None:
    """Raise InputError for the first name that is not known, naming the nearest one that is."""
    for name in given:
        if name not in known:
            raise InputError(f"there is no {what} {name!r}{nearest(name, known)}")
