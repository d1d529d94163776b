"""Signals that end a command: all of them interrupt it as Ctrl-C does, and decide its exit code."""

import signal
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_caught = list[int]()


def listen() -> None:
    """Turn signals into KeyboardInterrupt, except those that whoever started this process made it ignore."""
    for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def exit_code() -> int | None:
    """Return the exit code that shells expect after the signal that came, if one did: 130 after Ctrl-C."""
    return 128 + _caught[0] if _caught else None


def _interrupt(number: int, _: Any) -> None:
    _caught.append(number)
    raise KeyboardInterrupt
