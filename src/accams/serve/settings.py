"""Settings of the service, as the command line gives them and as worker processes receive them."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from accams.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")  # the last as a Host header has it
SECOND = 1.0
VARIABLE = "ACCAMS_SERVE"  # of the environment, by which worker processes receive the settings


@dataclass(frozen=True)
class Source:
    """A model to serve.

    Parameters
    ----------
    name : str
        By which requests choose it; the first model answers requests without a name.
    model : str
        Path of the model file.
    titles : str, optional
        Path of a table with the titles of items.
    history : str, optional
        Path of what users have seen: a history file, a table or a store.
    feedback : str, optional
        Path of the log to which feedback is written; without, feedback is refused.

    Examples
    --------
    >>> Source("films", "films.accams", titles="movies.csv").history is None
    True
    """

    name: str
    model: str
    titles: str | None = None
    history: str | None = None
    feedback: str | None = None

    @property
    def paths(self) -> list[Path]:
        """The files that it is read from."""
        return [Path(path) for path in (self.model, self.titles, self.history) if path is not None]


@dataclass(frozen=True)
class Settings:
    """What to serve, where, and within which limits.

    Parameters
    ----------
    sources : tuple of Source
        The models.
    host : str, default "127.0.0.1"
        Address at which to listen. At a local one, the service answers to local names alone.
    port : int, default 8000
        0 for any that is free.
    workers : int, default 1
        Processes that answer.
    watch : float, optional
        Seconds between looks at the files, of which new versions are loaded. Several workers look every second.
    token_file : str, optional
        Where `tokens` were read from, for worker processes to read them again.
    origins : tuple of str
        Sites whose pages may call (CORS), such as ``https://shop.example``.
    hosts : tuple of str
        Names by which the service may be called, besides local ones; any, if it listens at another address and there
        are none.
    max_body : int, default 1 MiB
        Bytes of a request.
    max_batch : int, default 1000
        Requests of a batch, and events of feedback, at a time.
    rate : float, optional
        Requests of one client in a second.
    access_log : bool, default True
        Whether requests are logged, by route.
    page : bool, default True
        Whether there is a page at ``/``.
    tokens : frozenset of str
        One of which requests must bear, if there are any.

    Examples
    --------
    >>> settings = Settings((Source("films", "films.accams"),), tokens=frozenset({"secret"}))
    >>> settings.is_local, settings.looks_every is None
    (True, True)
    >>> settings  # without secrets
    Settings(sources=(Source(name='films', ...),), host='127.0.0.1', port=8000, ..., page=True)
    """

    sources: tuple[Source, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    watch: float | None = None
    token_file: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    max_body: int = 1 << 20
    max_batch: int = 1000
    rate: float | None = None
    access_log: bool = True
    page: bool = True
    tokens: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can call."""
        return self.host in LOOPBACK

    @property
    def looks_every(self) -> float | None:
        """Seconds between looks at the files; other workers must notice whom one of them has forgotten."""
        return SECOND if self.watch is None and self.workers > 1 else self.watch

    @property
    def allowed_hosts(self) -> frozenset[str] | None:
        """Names by which the service may be called; None for any.

        A page of another site could make a browser call a local service by a name of its own that leads here (DNS
        rebinding), so a local service answers to local names alone.
        """
        if self.hosts:
            return frozenset(name.lower() for name in (*self.hosts, *LOOPBACK))
        return None if not self.is_local else frozenset(LOOPBACK)

    def to_environment(self) -> None:
        """Leave the settings, without secrets, to processes that this one starts."""
        content = {name: x for name, x in asdict(self).items() if name != "tokens"}
        os.environ[VARIABLE] = json.dumps(content)

    @classmethod
    def from_environment(cls) -> "Settings":
        """Return what `to_environment` has left."""
        content = json.loads(os.environ[VARIABLE])
        content["sources"] = tuple(Source(**each) for each in content["sources"])
        for name in ("origins", "hosts"):
            content[name] = tuple(content[name])
        return cls(**content, tokens=read_tokens(content["token_file"]))


def read_tokens(path: str | None) -> frozenset[str]:
    """Read the tokens of callers, one a line; lines that start with # are comments."""
    if path is None:
        return frozenset()
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the tokens in {path}: {error}") from None
    tokens = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not tokens:
        raise InputError(f"{path} holds no token: write one a line, for example the output of 'openssl rand -hex 32'")
    if not all(token.isascii() and token.isprintable() and " " not in token for token in tokens):
        raise InputError(f"{path} holds a token with blanks or other characters than ASCII")
    return tokens


def parse_sources(models: list[str], **files: list[str]) -> tuple[Source, ...]:
    """Return the models to serve, from arguments such as ``model.accams`` or ``films=model.accams``.

    `files` are options (titles, history, feedback) with paths that may be named in the same way.

    Examples
    --------
    >>> parse_sources(["films=a.accams", "b.accams"], titles=["films=movies.csv"])[0]
    Source(name='films', model='a.accams', titles='movies.csv', history=None, feedback=None)
    >>> parse_sources(["a.accams"], titles=["movies.csv"])[0].name
    'a'
    """
    named: dict[str, str] = {}
    for each in models:
        name, path = _split(each)
        name = name or Path(path).name.partition(".")[0] or "model"
        if name in named:
            raise InputError(f"two models are called {name}: name them, as in first={named[name]} second={path}")
        named[name] = path
    given = {option: _by_name(texts, named, f"--{option}") for option, texts in files.items()}
    return tuple(
        Source(name, path, **{option: of.get(name) for option, of in given.items()}) for name, path in named.items()
    )


def _by_name(texts: list[str], named: dict[str, str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in texts:
        name, path = _split(each)
        if not name and len(named) > 1:
            raise InputError(f"{option} must say for which model it is: {option} {next(iter(named))}={path}")
        name = name or next(iter(named))
        if name not in named:
            raise InputError(f"{option} names a model {name!r} that is not served: {', '.join(named)}")
        found[name] = path
    return found


def _split(text: str) -> tuple[str, str]:
    """Return name and path; a path that exists has no name, whatever it looks like."""
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists() or not name or "/" in name or "\\" in name:
        return "", text
    return name, path
