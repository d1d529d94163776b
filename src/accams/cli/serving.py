"""serve: put models behind HTTP."""

from pathlib import Path
from typing import Any

from rich.console import Console

from accams.cli.messages import safe, show
from accams.cli.options import size_in_bytes
from accams.errors import InputError
from accams.settings.kinds import POSITIVE, Integer

out = Console(stderr=True, emoji=False, highlight=False)


def serve_models(
    models: list[str], titles: list[str] | None, history: list[str] | None, feedback: list[str] | None, host: str,
    port: int, workers: int, watch: bool, token_file: Path | None, cors: list[str] | None,
    allow_host: list[str] | None, max_body: str, max_batch: int, rate: float | None, access_log: bool, page: bool,
) -> None:  # fmt: skip
    """Load the models and serve them until interrupted."""
    try:
        from accams.serve.running import run
        from accams.serve.settings import Settings, parse_sources, read_tokens
    except ImportError as error:
        raise InputError(f"accams serve needs more packages ({error.name}): pip install 'accams[serve]'") from None
    Integer(1).check("--workers", workers)
    Integer(1).check("--max-batch", max_batch)
    if rate is not None:
        POSITIVE.check("--rate", rate)
    token = None if token_file is None else str(token_file)
    settings = Settings(
        sources=parse_sources(models, titles=titles or [], history=history or [], feedback=feedback or []),
        host=host,
        port=port,
        workers=workers,
        watch=1.0 if watch else None,
        token_file=token,
        origins=tuple(cors or ()),
        hosts=tuple(allow_host or ()),
        max_body=size_in_bytes("--max-body", max_body),
        max_batch=max_batch,
        rate=rate,
        access_log=access_log,
        page=page,
        tokens=read_tokens(token),
    )
    run(settings, announce)


def announce(settings: Any, port: int) -> None:
    """Say where to look, and what to know."""
    names = ", ".join(each.name for each in settings.sources)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    out.print(f"serving {safe(names)} at [bold]http://{host}:{port}[/] (Ctrl-C stops)", soft_wrap=True)
    if not settings.is_local and not settings.tokens:
        show("warning", "everybody who reaches this address can ask, and change what users are known: set --token-file")
