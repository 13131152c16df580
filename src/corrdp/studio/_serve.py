"""Start the studio on the loopback and tell its address."""

import socket
from collections.abc import Callable

import uvicorn

from corrdp.studio._app import make_app
from corrdp.studio._security import Keys
from corrdp.studio._session import Session

LOOPBACK = "127.0.0.1"


def serve(session: Session, *, port: int, tell: Callable[[str], None]) -> None:
    """Serve one session until it is interrupted.

    Parameters
    ----------
    session : Session
        The table and what was said of it.
    port : int
        0 takes any free one.
    tell : callable
        Gets the address with its token, once the studio listens.
    """
    keys = Keys()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
        port = listener.getsockname()[1]
        app = make_app(session, keys, port=port)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, ws="none"
        )
        tell(f"http://{LOOPBACK}:{port}/?token={keys.token}")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            session.jobs.stop()
