"""The studio: a local page that leads from a table to a certificate."""

from corrdp.studio._app import make_app, serve
from corrdp.studio._session import Session

__all__ = ["Session", "make_app", "serve"]
