"""What one session of the studio knows: a draft in memory, and what was confirmed.

Nothing of the draft is written anywhere before every value in it has been confirmed;
the policy file is the first thing that leaves memory.
"""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corrdp._files import write_text
from corrdp._json import digest
from corrdp._validate import check_epsilon
from corrdp.certificate import LeakageClaim
from corrdp.estimators import read_model
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage import LeakageTable
from corrdp.policy import DraftWishes, Policy, draft_policy, guess_domain
from corrdp.studio._jobs import Jobs
from corrdp.studio._preview import ESTIMATORS
from corrdp.tables import read_table

POLICY_FILE = "policy.toml"
_LEAKAGE, _MODEL = ("leakage", ".json"), ("model", "")  # names of what is paid for
ROLES = {
    "sensitive": "sensitive",
    "insensitive": "by leakage",
    "public": "public",
    "leave": "leave out",
}


@dataclass(frozen=True)
class Column:
    """A column as drafted: what it seems to hold, and what speaks against it."""

    name: str
    kind: str
    doubt: str


@dataclass
class Choices:
    """What the person has said so far."""

    roles: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    label: str | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    model: str = "logistic"
    leakage: str = "declared"
    leakage_file: str | None = None
    leakage_epsilon: float = 0.3
    leakage_delta: float = 5e-7
    public_table: str = ""


class Session:
    """One table, one draft, one policy, at most one paid leakage and one model.

    `folder` is where the policy and all results go; every paid command is charged to
    the ledger, if there is one.
    """

    def __init__(
        self,
        data: str,
        folder: Path,
        *,
        ledger: Path | None = None,
        ledger_epsilon: float | None = None,
    ) -> None:
        self.data, self.folder = data, folder
        self._ledger, self._ledger_epsilon = ledger, ledger_epsilon
        self._table: Any = read_table(data, number_columns=())
        self.n_rows = int(self._table.num_rows)
        self.columns = [self._column(name) for name in self._table.column_names]
        self.choices = Choices(
            roles={c.name: "leave" if c.doubt else "insensitive" for c in self.columns}
        )
        self.document: dict[str, Any] | None = None
        self._written: str | None = None
        self._places: dict[tuple[object, ...], str] = {}
        self._leakage_deltas: dict[tuple[object, ...], float] = {}
        self.jobs = Jobs(folder)

    def _column(self, name: str) -> Column:
        guess = guess_domain(name, self._table[name], as_category=False, is_label=False)
        return Column(name, guess.domain.get("type", "left out"), guess.reason)

    def draft(self, roles: dict[str, str], target: str, label: str) -> None:
        """Draft a policy for these roles; a refusal leaves the earlier draft."""
        if label not in ("public", "protected"):
            raise PolicyError(
                "it was not said whether labels are protected. Choose public or "
                "protected."
            )
        without = {
            role: tuple(n for n, r in roles.items() if r == role and n != target)
            for role in ROLES
        }
        if not without["sensitive"] and label != "protected":
            raise PolicyError("nothing is sensitive. Choose at least one column.")
        text, _ = draft_policy(
            self._table,
            DraftWishes(
                target=target,
                sensitive=without["sensitive"],
                public=without["public"],
                left_out=without["leave"],
                category=(),
                label_protected=label == "protected",
            ),
        )
        policy = Policy.from_toml(text)
        self.choices.roles, self.choices.target = roles, target
        self.choices.label = label
        self.choices.leakage, self.choices.leakage_file = "declared", None
        self.document = policy.to_dict()
        self.choices.model = self.fitting_model

    def about(self, page: str) -> str:
        """Return a digest of what the form of a page is about.

        Forms name columns by their place, and the button that pays names no price but
        the one that it shows: sent from a tab that another one has overtaken, they
        would mean something else.
        """
        choices = self.choices
        chosen: list[object] = [choices.roles, choices.target, choices.label]
        return digest([*chosen, *self._training()] if page == "run" else chosen)

    @property
    def fitting_model(self) -> str:
        """Model for the label as it was drafted: of a number, or of categories."""
        label = {} if self.document is None else self.document["label"]
        return "linear" if label.get("type") == "number" else "logistic"

    def fields(self) -> list[dict[str, Any]]:
        """Return every bound and list of categories, with what awaits confirmation.

        A column without either (yes or no) has its type there, to be confirmed as well.
        """
        if self.document is None:
            return []
        waiting = {p.rpartition(".")[0] for p in self.document.get("unconfirmed", ())}
        owners = [(f"features.{n}", t, n) for n, t in self.document["features"].items()]
        owners.append(("label", self.document["label"], self.document["target"]))
        return [
            {
                "path": f"{path}.{key}",
                "name": name,
                "key": key,
                "value": table[key] if key != "type" else [table[key]],
                "waits": path in waiting,
                "besides": _besides(table),
                "is_target": path == "label",
            }
            for path, table, name in owners
            for key in _shown_keys(table)
        ]

    def confirm(self, values: dict[str, Any], confirmed: set[str]) -> None:
        """Take edited values, and responsibility for those that were ticked."""
        document = self._drafted()
        for place in self.fields():
            path = place["path"]
            if path in values:
                self._owner(document, path)[place["key"]] = values[path]
        waiting = [p for p in document.get("unconfirmed", ()) if p not in confirmed]
        document["unconfirmed"] = waiting
        Policy.from_dict(document)
        self.document = document

    def declare_leakage(self, values: dict[str, float]) -> None:
        """Declare the leakage of insensitive features."""
        document = self._drafted()
        for name, value in values.items():
            document["features"][name]["leakage"] = value
        Policy.from_dict(document)
        self.document = document
        self.choices.leakage, self.choices.leakage_file = "declared", None

    @property
    def waiting(self) -> int:
        """Number of values that were read from the table and not confirmed."""
        return 0 if self.document is None else len(self.document.get("unconfirmed", ()))

    @property
    def ready(self) -> bool:
        """Whether there is a policy without unconfirmed values."""
        return self.document is not None and self.waiting == 0

    def policy(self) -> Policy:
        """Return the policy; refuses a draft with unconfirmed values."""
        policy = Policy.from_dict(self._drafted())
        policy.require_confirmed()
        return policy

    def write_policy(self) -> Path:
        """Write the policy file; a file of somebody else is never replaced."""
        text = self.policy().to_toml()
        path = self.folder / POLICY_FILE
        if path.exists() and path.read_text(encoding="utf-8") not in (
            text,
            self._written,
        ):
            raise CorrDPError(
                f"there is a file {str(path)!r} already, not of this session. "
                "Move it away, or start the studio with another --out."
            )
        if text != self._written and self.jobs.running:
            raise CorrDPError(
                "a command is running that reads the policy as it was. Wait until it "
                "has ended."
            )
        write_text(path, text)
        self._written = text
        return path

    def use_public_table(self, text: str) -> None:
        """Take distances from a file that the person declares public."""
        path = Path(os.path.expanduser(text.strip()))
        if not text.strip() or not os.path.isfile(path):
            raise CorrDPError(
                "there is no file of that name. Write the path of a table on this "
                "machine whose rows may be disclosed."
            )
        choices = self.choices
        choices.public_table = str(path.resolve())
        choices.leakage = "public"
        about = ("public", self.policy().fingerprint(), choices.public_table)
        choices.leakage_file = self._own_place("public_leakage", ".json", about)

    def pay_for_leakage(self, epsilon: float, *, again: bool = False) -> None:
        """Take distances from a release; asked for again, it is the one that is there.

        A delta that was changed in between makes no second release. Beside a release of
        an earlier start, one is made only for who wants to pay `again`.
        """
        choices, epsilon = self.choices, check_epsilon(epsilon)
        about = ("paid", self.policy().fingerprint(), epsilon)
        file = self._paid_place(*_LEAKAGE, about, again=again)
        delta = self._leakage_deltas.setdefault(about, choices.delta / 2)
        choices.leakage_delta = delta
        choices.leakage, choices.leakage_epsilon = "paid", epsilon
        choices.leakage_file = file

    def use_earlier_leakage(self, name: str) -> None:
        """Take distances that an earlier start of the studio has paid for."""
        if name not in self.earlier_leakage:
            raise CorrDPError("there is no such estimate. Choose one of the list.")
        LeakageTable.from_file(self.folder / name).require_policy(self.policy())
        self.choices.leakage, self.choices.leakage_file = "earlier", name

    def use_earlier_model(self, name: str) -> None:
        """Take a model that an earlier start has trained with what is chosen now.

        Policy, budget, distances and the kind of model are compared with those of its
        certificate. Of which table it was trained the person says who takes it.
        """
        if name not in self.earlier_models:
            raise CorrDPError("there is no such model. Choose one of the list.")
        content, policy, certificate = read_model(self.folder / name)
        asked, choices = self.policy(), self.choices
        claim = LeakageClaim.declared(asked)
        if choices.leakage_file is not None:
            table = LeakageTable.from_file(self.folder / choices.leakage_file)
            asked, claim = table.policy_for(asked), table.claim(policy=asked)
        if certificate is None or (
            content["kind"] != ESTIMATORS[choices.model].__name__
            or policy.fingerprint() != asked.fingerprint()
            or (certificate.target_epsilon, certificate.delta)
            != (choices.epsilon, choices.delta)
            or certificate.leakage != claim
        ):
            raise CorrDPError(
                f"{name} is a model of another policy, budget, leakage or kind than "
                "what is chosen. Choose what it was trained with, or train another."
            )
        self._places[(_MODEL[0], *self._training())] = name
        self.jobs.found(
            self.train_words(), "Train the model", self.policy().fingerprint()
        )

    @property
    def earlier_leakage(self) -> list[str]:
        """Estimates in the folder that an earlier start may have paid for."""
        return self._earlier(*_LEAKAGE)

    @property
    def earlier_models(self) -> list[str]:
        """The same of models; none once the model that was chosen has its place."""
        known = (_MODEL[0], *self._training()) in self._places
        return [] if known else self._earlier(*_MODEL)

    @property
    def model_folder(self) -> str:
        """Folder of the model that is trained with what was chosen."""
        return self._place(*_MODEL, self._training())

    def begin_training(self, *, again: bool = False) -> list[str]:
        """Return the training as arguments, with a folder that is kept for it.

        Beside a model of an earlier start only for who wants to pay `again`.
        """
        self._paid_place(*_MODEL, self._training(), again=again)
        return self.train_words()

    def _training(self) -> tuple[object, ...]:
        choices = self.choices
        budget = (choices.epsilon, choices.delta, choices.model)
        return (self.policy().fingerprint(), *budget, choices.leakage_file)

    def _place(self, stem: str, suffix: str, about: tuple[object, ...]) -> str:
        """Return the name that this work has, or a name that nothing has."""
        number, name = 1, stem + suffix
        known = self._places.get((stem, *about))
        taken = set(self._places.values())
        while known is None and (name in taken or (self.folder / name).exists()):
            number += 1
            name = f"{stem}-{number}{suffix}"
        return known or name

    def _own_place(self, stem: str, suffix: str, about: tuple[object, ...]) -> str:
        """Keep a name for this work: nothing else of this session gets it."""
        return self._places.setdefault((stem, *about), self._place(stem, suffix, about))

    def _paid_place(
        self, stem: str, suffix: str, about: tuple[object, ...], *, again: bool
    ) -> str:
        """Keep a name for work that is paid for; refuse to pay twice unasked.

        What an earlier start was asked for is not known: that it left results is.
        """
        earlier = self._earlier(stem, suffix)
        if earlier and not again and (stem, *about) not in self._places:
            raise CorrDPError(
                f"the folder holds {', '.join(earlier)} already, not of this session. "
                "If an earlier start of the studio paid for the same, use that: it "
                "costs nothing. Tick that you want to pay again, or start the studio "
                "with another --out."
            )
        return self._own_place(stem, suffix, about)

    def _earlier(self, stem: str, suffix: str) -> list[str]:
        """Return results in the folder that are not of this session."""
        found = {
            path.name
            for pattern in (f"{stem}{suffix}", f"{stem}-*{suffix}")
            for path in self.folder.glob(pattern)
        }
        return sorted(found - set(self._places.values()))

    def leakage_words(self) -> list[str]:
        """Return the estimate of leakage as arguments of the command line."""
        choices = self.choices
        known = ("--policy", POLICY_FILE, "--source")
        saved = ("--out", str(choices.leakage_file))
        if choices.leakage == "public":
            return ["leakage", choices.public_table, *known, "public", *saved]
        epsilon, delta = repr(choices.leakage_epsilon), repr(choices.leakage_delta)
        return [
            *("leakage", self.data, *known, "private"),
            *("--epsilon", epsilon, "--delta", delta, *saved, *self._ledger_words()),
        ]

    def train_words(self) -> list[str]:
        """Return the training as arguments of the command line."""
        choices = self.choices
        file = choices.leakage_file
        leakage = () if file is None else ("--leakage", file)
        return [
            *("train", self.data, "--policy", POLICY_FILE, *leakage),
            *("--epsilon", repr(choices.epsilon), "--delta", repr(choices.delta)),
            *("--model", choices.model, "--out", self.model_folder),
            *self._ledger_words(),
        ]

    def commands(self) -> str:
        """Return the same work as commands to copy."""
        words = [self.train_words()]
        if self.choices.leakage == "paid":
            words.insert(0, self.leakage_words())
        words[0] += self.creating_words()  # the first that is paid for
        if self.choices.leakage == "public":
            words.insert(0, self.leakage_words())
        lines = ["corrdp " + shlex.join(line) for line in words]
        return "\n".join([f"cd {shlex.quote(str(self.folder))}", *lines])

    def python(self) -> str:
        """Return the same training as Python to copy."""
        choices = self.choices
        name = "LinearRegression" if choices.model == "linear" else "LogisticRegression"
        given = [f"epsilon={choices.epsilon!r}", f"delta={choices.delta!r}"]
        lines = ["import corrdp", f"policy = corrdp.Policy.from_file({POLICY_FILE!r})"]
        if choices.leakage_file is not None:
            file = choices.leakage_file
            lines.append(f"leakage = corrdp.LeakageTable.from_file({file!r})")
            given.append("leakage=leakage")
        if self._ledger is not None:
            given.append(f"ledger={str(self._ledger)!r}")
            lines += self._creating_lines()
        lines += [
            f"model = corrdp.{name}(policy, {', '.join(given)})",
            f"model.fit({self.data!r})",
            "print(model.certificate_.to_text())",
        ]
        return "\n".join(lines)

    def _creating_lines(self) -> list[str]:
        """Return the Python that creates the ledger, as long as there is none."""
        words = self.creating_words()
        if not words:
            return []
        return [
            "from corrdp.ledger import Ledger",
            "from corrdp.policy import Budget",
            f"budget = Budget(epsilon={words[1]}, delta={words[3]})",
            f"Ledger.create({str(self._ledger)!r}, policy, budget=budget)",
        ]

    def creating_words(self) -> tuple[str, ...]:
        """Return the options that create the ledger, as long as there is none."""
        if (
            self._ledger is None
            or self._ledger_epsilon is None
            or self._ledger.exists()
        ):
            return ()
        total = ("--ledger-epsilon", repr(self._ledger_epsilon))
        return (*total, "--ledger-delta", f"{10 * self.choices.delta:.12g}")

    def _ledger_words(self) -> tuple[str, ...]:
        return () if self._ledger is None else ("--ledger", str(self._ledger))

    def _drafted(self) -> dict[str, Any]:
        if self.document is None:
            raise PolicyError("there is no draft yet. Choose roles first.")
        copy = Policy.from_dict(self.document).to_dict()
        copy.setdefault("unconfirmed", list(self.document.get("unconfirmed", ())))
        return copy

    @staticmethod
    def _owner(document: dict[str, Any], path: str) -> dict[str, Any]:
        owner = path.rpartition(".")[0]
        table: dict[str, Any] = document["label"]
        if owner != "label":
            table = document["features"][owner.removeprefix("features.")]
        return table


def _besides(table: dict[str, Any]) -> str:
    """Return in words what else is confirmed with the field of a column."""
    words = []
    if table.get("whole"):
        words.append("whole numbers")
    if "bins" in table:
        words.append(f"counted in {table['bins']} bins")
    if table.get("digits"):
        words.append("written as 1 and 0")
    if table.get("missing") == "slot":
        words.append("missing cells are a value of their own")
    elif "missing_value" in table:
        words.append(f"missing cells count as {table['missing_value']}")
    if table.get("other"):
        words.append("all other values are one value more")
    elif "unknown" in table:
        words.append(f"other values count as {table['unknown']}")
    return "; ".join(words)


def _shown_keys(table: dict[str, Any]) -> list[str]:
    keys: list[str] = [key for key in ("bounds", "categories") if key in table]
    return keys or ["type"]
