"""Run the service: one process or several, on one socket."""

import errno
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from accams.errors import InputError
from accams.serve.app import create_app
from accams.serve.guard import JsonLines
from accams.serve.metrics import FOLDER
from accams.serve.settings import Settings
from accams.writing import scratch_folder

BACKLOG = 2048
HOW: dict[str, Any] = {
    "access_log": False,  # it would show paths and addresses
    "log_config": None,
    "server_header": False,
    "proxy_headers": False,  # anybody could write them
    "timeout_keep_alive": 30,  # seconds after which a connection without requests is closed
    "timeout_graceful_shutdown": 20,  # seconds that requests have to end when the service is stopped
}


def run(settings: Settings, announce: Callable[[Settings, int], None]) -> None:
    """Serve until a signal comes; requests that have begun are answered."""
    with _bound(settings) as listening:
        app = create_app(settings)
        app.state.service.serving.start()  # with several workers too: what is wrong is told once, and at once
        announce(settings, listening.getsockname()[1])
        if settings.workers == 1:
            _log_as_json()
            uvicorn.Server(uvicorn.Config(app, **HOW)).run(sockets=[listening])
            return
        del app
        settings.to_environment()
        with scratch_folder() as folder:
            os.environ[FOLDER] = str(folder)
            how = {**HOW, "fd": listening.fileno(), "factory": True, "workers": settings.workers}
            uvicorn.run("accams.serve.running:worker", **how)


def worker() -> FastAPI:
    """Return the application of a worker process."""
    _log_as_json()
    return create_app(Settings.from_environment())


def _bound(settings: Settings) -> socket.socket:
    """Return a socket that listens at the address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by connections: else the body of an answer would wait for the client to confirm its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)  # at once, so that no other service takes the port meanwhile
    except socket.gaierror:
        listening.close()
        raise InputError(f"there is no address {settings.host!r} here: choose another --host") from None
    except OSError as error:
        listening.close()
        what = f"cannot serve at {settings.host}:{settings.port}"
        advice = "choose another --host" if error.errno == errno.EADDRNOTAVAIL else "choose another --port"
        raise InputError(f"{what}: {os.strerror(error.errno or 0)}; {advice}") from None
    except OverflowError:
        listening.close()
        raise InputError(f"--port must lie between 0 and 65535, not {settings.port}") from None
    listening.set_inheritable(True)
    return listening


def _log_as_json() -> None:
    """Write the log of this process to standard error, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("accams", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
