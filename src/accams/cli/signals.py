"""Signals that end a command: all of them interrupt it as Ctrl-C does, and decide its exit code."""

import signal
from time import monotonic
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
PATIENCE = 1.0  # seconds
_caught, _when = list[int](), list[float]()


def listen() -> None:
    """Turn signals into KeyboardInterrupt, except those that whoever started this process made it ignore."""
    for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def exit_code() -> int | None:
    """Return the exit code that shells expect after the signal that came, if one did: 130 after Ctrl-C."""
    return 128 + _caught[0] if _caught else None


def _interrupt(number: int, _: Any) -> None:
    """Interrupt; another signal right after the first would only disturb the cleaning up."""
    now = monotonic()
    again = bool(_caught) and now - _when[-1] < PATIENCE
    _caught.append(number)
    _when.append(now)
    if not again:
        raise KeyboardInterrupt
