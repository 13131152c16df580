"""The pages of the studio and what their forms do."""

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from corrdp.certificate import Certificate
from corrdp.exceptions import CorrDPError
from corrdp.leakage import LeakageTable
from corrdp.policy import Budget, Policy
from corrdp.studio._forms import Form, edited, number, read_form, shown
from corrdp.studio._preview import ESTIMATORS, Asked, budget_words, planned, previewed
from corrdp.studio._security import FORM_FIELD, REPORT_POLICY, Gate, Keys
from corrdp.studio._session import ROLES, Session

STEPS = {
    "columns": "Columns",
    "domains": "Confirm",
    "leakage": "Leakage",
    "budget": "Budget",
    "plan": "Plan",
    "run": "Train",
}

_FORMS = ("domains", "leakage", "budget", "run")  # that follow the choice of columns
_ABOUT = "about"  # what a form was made for, and a page that lies behind is refused
_AGAIN = "again"  # ticked by who wants to pay beside results of an earlier start


def make_app(session: Session, keys: Keys, *, port: int) -> Starlette:
    """Return the studio of one session as an application.

    `keys` are those of this start; requests for another host than this machine's
    `port` are refused.
    """
    pages = _Pages(session, keys)
    hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
    routes = [Route("/", pages.start)]
    routes += [
        Route(f"/{name}", partial(pages.show, name)) for name in (*STEPS, "preview")
    ]
    routes += [
        Route(f"/{name}", partial(pages.take, name), methods=["POST"])
        for name in ("columns", *_FORMS)
    ]
    routes += [
        Route("/words", pages.words),
        Route("/job/{key}", pages.job),
        Route("/report", pages.report),
        Route("/certificate", pages.certificate),
        Route("/asset/{name}", _asset),
    ]
    gate = Middleware(Gate, keys=keys, hosts=hosts)
    return Starlette(routes=routes, middleware=[gate])


class _Pages:
    def __init__(self, session: Session, keys: Keys) -> None:
        self._session, self._keys = session, keys
        self._lock = threading.Lock()
        self._environment = Environment(
            loader=PackageLoader("corrdp.studio"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    async def start(self, _: Request) -> Response:
        return _see("/columns")

    async def show(self, name: str, request: Request) -> Response:
        del request  # whatever was asked for, a page shows the session
        return await run_in_threadpool(self._page, name)

    async def take(self, name: str, request: Request) -> Response:
        form = await read_form(request)
        if form is None or not self._keys.knows_form(form.get(FORM_FIELD, "")):
            return PlainTextResponse(
                "Refused: the form is not one of this studio.\n",
                status_code=HTTPStatus.FORBIDDEN,
            )
        return await run_in_threadpool(self._taken, name, form)

    def _taken(self, name: str, form: Form) -> Response:
        try:
            with self._lock:
                self._require_current(name, form)
                return _see(getattr(self, f"_take_{name}")(form))
        except CorrDPError as error:
            return self._page(name, problem=str(error))

    def _require_current(self, name: str, form: Form) -> None:
        if _ABOUT in form and form[_ABOUT] != self._session.about(name):
            raise CorrDPError(
                "what was chosen has changed since that page was shown, in another tab "
                "perhaps. This page shows it as it is: look at it, and send it again."
            )

    def _take_columns(self, form: Form) -> str:
        names = [column.name for column in self._session.columns]
        roles = {n: form.get(f"role-{i}", "leave") for i, n in enumerate(names)}
        if any(role not in ROLES for role in roles.values()):
            raise CorrDPError("a role is not one of those offered. Choose again.")
        places = {str(place): name for place, name in enumerate(names)}
        if form.get("target") not in places:
            raise CorrDPError("no column to predict was chosen. Choose one.")
        self._session.draft(roles, places[form["target"]], form.get("label", ""))
        return "/domains"

    def _take_domains(self, form: Form) -> str:
        values: dict[str, Any] = {}
        confirmed = set()
        everything = "all" in form
        fields = self._session.fields()
        for place, field in enumerate(fields):
            text = form.get(f"value-{place}")
            if text is not None and (value := edited(field, text)) is not None:
                values[field["path"]] = value
        ticked = {
            f["path"].rpartition(".")[0]
            for place, f in enumerate(fields)
            if f"confirm-{place}" in form
        }
        document = self._session.document or {}
        for path in document.get("unconfirmed", ()):
            if everything or path.rpartition(".")[0] in ticked:
                confirmed.add(path)
        self._session.confirm(values, confirmed)
        return "/leakage" if self._session.ready else "/domains"

    def _take_leakage(self, form: Form) -> str:
        session = self._session
        session.policy()
        if "use" in form:
            session.use_earlier_leakage(form["use"])
            return "/budget"
        if form.get("source") == "paid":
            session.pay_for_leakage(number("epsilon", form), again=_AGAIN in form)
            session.write_policy()
            return self._paid_job(session.leakage_words(), "Estimate the leakage")
        if form.get("source") == "public":
            session.use_public_table(form.get("table", ""))
            session.write_policy()
            key, _ = session.jobs.start(
                session.leakage_words(), "Read the leakage off the public table"
            )
            return f"/job/{key}"
        names = session.policy().insensitive
        values = {
            n: number(f"leakage-{i}", form, f"the leakage of {n!r}")
            for i, n in enumerate(names)
        }
        session.declare_leakage(values)
        return "/budget"

    def _take_budget(self, form: Form) -> str:
        choices = self._session.choices
        epsilon, delta = number("epsilon", form), number("delta", form)
        budget_words(epsilon, delta)
        if form.get("model") not in ESTIMATORS:
            raise CorrDPError("the model is not one of those offered. Choose again.")
        if form["model"] != self._session.fitting_model:
            raise CorrDPError(
                "the model does not fit the column to predict. Choose the classifier "
                "for categories, linear regression for a number."
            )
        choices.epsilon, choices.delta = epsilon, delta
        choices.model = form["model"]
        return "/plan"

    def _take_run(self, form: Form) -> str:
        session = self._session
        self._leakage_path()  # refuses what is not there
        if "use" in form:
            session.use_earlier_model(form["use"])
            return "/run"
        session.write_policy()
        words = session.begin_training(again=_AGAIN in form)
        return self._paid_job(words, "Train the model")

    def _paid_job(self, words: Sequence[str], what: str) -> str:
        """Start a command that a ledger pays for; return where to watch it."""
        session = self._session
        key, _ = session.jobs.start(
            words,
            what,
            about=session.policy().fingerprint(),
            extra=session.creating_words(),
        )
        return f"/job/{key}"

    async def words(self, request: Request) -> Response:
        try:
            given = dict(request.query_params)
            epsilon, delta = number("epsilon", given), number("delta", given)
            return JSONResponse({"words": budget_words(epsilon, delta)})
        except CorrDPError as error:
            return JSONResponse({"words": str(error)})

    async def job(self, request: Request) -> Response:
        job = self._session.jobs.get(request.path_params["key"])
        if job is None:
            return _see("/columns")
        after = "/budget" if job.words[0] == "leakage" else "/run"
        response = self._rendered("job", "run", job=job, after=after)
        if job.running:
            response.headers["Refresh"] = "1"
        return response

    async def report(self, _: Request) -> Response:
        if not self._trained():
            return _see("/run")
        path = self._session.folder / self._session.model_folder / "report.html"
        page = HTMLResponse(path.read_text(encoding="utf-8"))
        page.headers["Content-Security-Policy"] = REPORT_POLICY
        return page

    async def certificate(self, _: Request) -> Response:
        if not self._trained():
            return _see("/run")
        path = self._session.folder / self._session.model_folder / "certificate.json"
        text = await run_in_threadpool(lambda: Certificate.from_file(path).to_text())
        return self._rendered("certificate", "run", text=text)

    def _trained(self) -> bool:
        """Return whether there is a model of the policy that is shown."""
        session = self._session
        return session.ready and session.jobs.finished(
            session.train_words(), session.policy().fingerprint()
        )

    def _page(self, name: str, problem: str = "") -> Response:
        session = self._session
        if name != "columns" and session.document is None:
            return _see("/columns")
        if name not in ("columns", "domains") and not session.ready:
            return _see("/domains")
        try:
            content = getattr(self, f"_show_{name}")()
        except CorrDPError as error:
            content, problem = {"failed": True}, problem or str(error)
        step = name if name in STEPS else "plan"
        if name in _FORMS:
            content["about"] = session.about(name)
        return self._rendered(name, step, problem=problem, **content)

    def _show_columns(self) -> dict[str, Any]:
        return {"columns": self._session.columns, "roles": ROLES}

    def _show_domains(self) -> dict[str, Any]:
        fields = [f | {"shown": shown(f["value"])} for f in self._session.fields()]
        return {"fields": fields, "waiting": sum(f["waits"] for f in fields)}

    def _show_leakage(self) -> dict[str, Any]:
        policy = self._session.policy()
        known = {f.name: f.known_leakage for f in policy.features}
        return {
            "insensitive": [(n, known[n]) for n in policy.insensitive],
            "earlier": self._session.earlier_leakage,
        }

    def _show_budget(self) -> dict[str, Any]:
        choices = self._session.choices
        return {"words": budget_words(choices.epsilon, choices.delta)}

    def _show_plan(self) -> dict[str, Any]:
        return {"failed": False, "plan": planned(self._asked())}

    def _show_preview(self) -> dict[str, Any]:
        return {"preview": previewed(self._asked())}

    def _asked(self) -> Asked:
        """Return the model that the choices so far are about."""
        session, choices = self._session, self._session.choices
        policy = session.policy()
        budget = Budget(epsilon=choices.epsilon, delta=choices.delta)
        leakage = self._leakage_table(policy)
        return Asked(policy, session.n_rows, budget, choices.model, leakage)

    def _leakage_table(self, policy: Policy) -> LeakageTable | None:
        path = self._leakage_path()
        if path is None:
            return None
        table = LeakageTable.from_file(path)
        table.require_policy(policy)
        return table

    def _leakage_path(self) -> Path | None:
        """Return where the chosen leakage lies; None if the policy declares it."""
        file = self._session.choices.leakage_file
        if file is None:
            return None
        path = self._session.folder / file
        if not path.exists():
            raise CorrDPError(
                "the leakage that was chosen is not there: its command has not ended, "
                "or it failed. Wait for it, or go back to the leakage."
            )
        return path

    def _show_run(self) -> dict[str, Any]:
        session = self._session
        return {
            "commands": session.commands(),
            "python": session.python(),
            "trained": self._trained(),
            "earlier": session.earlier_models,
        }

    def _rendered(self, template: str, step: str, **content: Any) -> Response:
        values = {
            "session": self._session,
            "choices": self._session.choices,
            "steps": STEPS,
            "step": step,
            "form_field": FORM_FIELD,
            "form_key": self._keys.form,
            "problem": "",
            "failed": False,
        }
        page = self._environment.get_template(f"{template}.html.j2")
        return HTMLResponse(page.render(values | content))


def _see(address: str) -> Response:
    return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)


_ASSETS = {"studio.css": "text/css", "studio.js": "text/javascript"}


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return PlainTextResponse("Not found.\n", status_code=HTTPStatus.NOT_FOUND)
    text = (files("corrdp.studio") / "templates" / name).read_text(encoding="utf-8")
    return Response(text, media_type=_ASSETS[name])


LOOPBACK = "127.0.0.1"


def serve(session: Session, *, port: int, tell: Callable[[str], None]) -> None:
    """Serve one session until it is interrupted; port 0 takes any free one.

    Who is told gets the address with its token, once the studio listens.
    """
    keys = Keys()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            raise CorrDPError(
                f"port {port} cannot be taken on this machine. Choose another --port, "
                "or 0 for any free one."
            ) from None
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
