"""Options of `accams fit`, generated from the settings of the estimators."""

import re
from dataclasses import Field, dataclass
from functools import cache
from inspect import Parameter
from typing import Annotated, Any

import typer

from accams.errors import InputError
from accams.settings.backfit import ACCAMSSettings
from accams.settings.bayesian import BayesianSettings
from accams.settings.fields import every
from accams.settings.items import ItemSettings
from accams.settings.kinds import FLAG, Kind

CLASSES = {"bayes": BayesianSettings, "accams": ACCAMSSettings, "lists": ItemSettings}
PANELS = {"bayes": "bACCAMS (--model bayes)", "accams": "ACCAMS (--model accams)", "lists": "Lists (--for lists)"}


@dataclass(frozen=True)
class Option:
    """An option, and the parameter that it sets in each model."""

    name: str  # in Python, such as burn_in
    flags: list[str]  # as typed, such as ["--burn-in"]
    parameters: dict[str, tuple[str, Field[Any]]]  # name and field of the parameter, by model

    @property
    def basic(self) -> bool:
        """Whether ``--help`` shows it."""
        return any(each.metadata["brief"] for _, each in self.parameters.values())

    @property
    def kinds(self) -> dict[str, Kind]:
        return {model: each.metadata["kind"] for model, (_, each) in self.parameters.items()}

    def parse(self, model: str, text: Any, called: str = "") -> Any:
        """Return the value that was typed, or given in a configuration file and called so there."""
        return self.kinds[model].parse(called or self.flags[0], text)

    def signature(self) -> Parameter:
        """Return the option as typer takes it: a parameter of the function that runs the command."""
        switch = all(kind is FLAG for kind in self.kinds.values())
        panel = PANELS[next(iter(self.parameters))] if len(self.parameters) == 1 and not self.basic else None
        metavar = "" if switch else max((kind.letter for kind in self.kinds.values()), key=len)
        info = typer.Option(
            *self.flags, help=self.help(brief=self.basic), metavar=metavar,
            rich_help_panel=panel, show_default=False, hidden=not self.basic,
        )  # fmt: skip
        annotation = Annotated[bool if switch else str | None, info]  # type: ignore[valid-type]
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=False if switch else None, annotation=annotation)

    def help(self, brief: bool = False) -> str:
        """Return the text for ``--help-all``, or the brief one for ``--help``."""
        fields = {model: each for model, (_, each) in self.parameters.items()}
        texts = {model: each.metadata["brief"] if brief else _full(each) for model, each in fields.items()}
        text = " ".join(dict.fromkeys(texts.values()))
        if len(set(texts.values())) > 1:
            text = " ".join(f"{model}: {each}" for model, each in texts.items())
        defaults = {model: _shown(each.default) for model, each in fields.items()}
        default = next(iter(defaults.values()))
        if len(set(defaults.values())) > 1:
            default = ", ".join(f"{each} for {model}" for model, each in defaults.items())
        return text if default == "false" or (brief and default == "none") else f"{text} [dim]\\[default: {default}][/]"


@cache
def options() -> dict[str, Option]:
    """Return all options that set parameters, by name."""
    found: dict[str, Option] = {}
    for model, cls in CLASSES.items():
        for parameter, each in every(cls):
            flags = each.metadata["flag"].split() or [f"--{each.name.replace('_', '-')}"]
            if flags == ["-"]:
                continue
            name = flags[0].removeprefix("--").replace("-", "_")
            option = found.setdefault(name, Option(name, flags, {}))
            option.parameters[model] = parameter, each
    return found


def parameters_of(model: str, given: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Return parameters of the estimator from options, parsed and checked; messages call them by their labels."""
    known = options()
    return {
        known[name].parameters[model][0]: known[name].parse(model, x, (labels or {}).get(name, ""))
        for name, x in given.items()
        if name in known and model in known[name].parameters
    }


def foreign(model: str, given: dict[str, Any]) -> list[str]:
    """Return the flags that were given although the model has no such parameter."""
    known = options()
    return [known[name].flags[0] for name in given if name in known and model not in known[name].parameters]


def flags_of(parameters: tuple[str, ...], model: str = "bayes") -> dict[str, str]:
    by_parameter = {each.parameters[model][0]: each for each in options().values() if model in each.parameters}
    return {by_parameter[name].name: by_parameter[name].flags[0] for name in parameters if name in by_parameter}


def of_lists_alone(given: dict[str, Any]) -> list[str]:
    """Return the flags that were given and set parameters of lists alone."""
    return [each.flags[0] for name, each in options().items() if name in given and list(each.parameters) == ["lists"]]


def refuse(flags: list[str], why: str) -> None:
    if flags:
        raise InputError(f"{listed(flags)} {why}")


def listed(words: list[str]) -> str:
    """Return words as a list in English."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _full(each: Field[Any]) -> str:
    """Return documentation for the help: parameters become flags, brackets are no markup; values come last."""
    text = re.sub(r"``([^`]*)``", r"\1", each.metadata["doc"])
    text = re.sub(r"`([\w.]+)`", lambda word: _flag(word[1]), text)
    values = each.metadata["kind"].metavar
    return (f"{text} ({values})" if "|" in values and each.metadata["kind"] is not FLAG else text).replace("[", "\\[")


@cache
def _flag(name: str) -> str:
    for option in options().values():
        if any(parameter.rpartition("__")[2] == name for parameter, _ in option.parameters.values()):
            return option.flags[0]
    return name


def _shown(default: Any) -> str:
    return f"{default:g}" if isinstance(default, float) else str(default).lower()
