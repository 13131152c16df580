"""The loop that trains a network, attacked as it runs.

The loader draws the batch, `PrivateModule.backward` clips, adds noise and writes
gradients, the optimizer steps on them. The adversary sees all that is released: the
reference and the gradient of every step, at parameters of his choice.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import (
    Attack,
    LikelihoodAttack,
    LinearAttack,
    claims_of,
)
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.targets._loop_search import Weights, worst_steps
from corrdp.auditing.targets._sampling import sampled_score
from corrdp.auditing.targets._steps import (
    FEWEST_ROWS,
    LEAST_NOISE,
    ClaimsOfClass,
    table_with,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import (
    Block,
    CategoryDomain,
    NeighborClass,
    NumberDomain,
    Policy,
    neighbor_classes,
    policy_blocks,
)
from corrdp.training import central_reference

if TYPE_CHECKING:
    import torch

    from corrdp.torch import PrivateTraining

Table = tuple[FloatArray, FloatArray]

N_RUNS = 3000


class TrainingLoop:
    """A training that is run again and again on rows of the adversary.

    Its own rows are not read. Tables have as many if their mean is released, and few
    otherwise: a step is certified for every table, and others only hide the target.
    Codes of the policy become features as `scale`, shape (n_columns,), and `center`,
    where codes at their center are, say; those of the released mean by default.

    Guarantee
    ---------
    None is given, one is attacked: that of the training, at any parameters
    (`docs/theory/audit.md`).
    """

    def __init__(
        self,
        training: "PrivateTraining",
        scale: FloatArray | None = None,
        center: FloatArray | None = None,
    ) -> None:
        self.module, self._optimizer, self.loader = training
        plan = self.module.plan
        self.policy = self.module.terms.policy
        self.blocks: Sequence[Block] = policy_blocks(self.policy)
        self.n_columns = self.blocks[-1].stop
        self.labels: Sequence[float] = label_values(self.policy)
        self._reference = plan.reference
        self.n_rows = FEWEST_ROWS if plan.reference is None else self.loader.n_rows
        middle = central_reference(self.blocks)
        if plan.reference is not None:
            scale, center = plan.reference.scale, plan.reference.center
        self._scale = np.ones_like(middle) if scale is None else scale
        self._shift = (middle if center is None else center) - middle * self._scale
        self.parameters = self.module.trained_parameters()
        own = self.module.step_noise.numpy(force=True).astype(np.float64)
        self.rate = self.loader.rate
        self._expected_batch = self.loader.expected_batch  # while it has its own rows
        self.step_noise = own / self._expected_batch
        least = LEAST_NOISE / self._expected_batch  # where there is none, to search
        self.noise_scale = np.where(self.step_noise > 0.0, self.step_noise, least)

    def encode(self, codes: FloatArray) -> FloatArray:
        """Return features of the module, from codes of the policy."""
        return np.asarray(codes * self._scale + self._shift)

    def table(self, record: FloatArray, label: float) -> Table:
        """Return the record among central rows."""
        return table_with(record, label, self.blocks, self.labels, self.n_rows)

    def batch(
        self, codes: FloatArray, y: FloatArray
    ) -> "tuple[torch.Tensor, torch.Tensor]":
        """Return rows as the loader would give them."""
        import torch

        features = torch.as_tensor(self.encode(codes)).to(self.loader.features)
        return features, torch.as_tensor(y).to(self.loader.labels)

    def begin(self, table: Table) -> None:
        """Start the training anew on a table."""
        progress, loader = self.module.progress, self.loader
        progress.steps_charged = progress.steps_used = loader.steps_taken = 0
        progress.gradient_is_fresh = False
        progress.reference_is_known = self._reference is None
        loader.features, loader.labels = self.batch(*table)

    def place(self, weights: Weights) -> None:
        """Set the trained parameters."""
        import torch

        with torch.no_grad():
            for parameter, value in zip(self.parameters, weights, strict=True):
                parameter.copy_(value)

    def released_reference(self) -> FloatArray:
        """Return the reference in its sensitive columns, if one is released."""
        found = self.module.reference
        if self._reference is None or found is None:
            return np.empty(0)
        return found.numpy(force=True)[self._reference.columns].astype(np.float64)

    def quiet_reference(self, table: Table) -> FloatArray:
        """Return the reference of a table without noise, and let the module use it."""
        import torch

        if self._reference is None:
            return np.empty(0)
        self.begin(table)
        silent: Any = _NoNoise()
        mean = self._reference.release(self.loader.features, silent)
        self.module.use_reference(torch.as_tensor(mean))
        return mean[self._reference.columns]

    @property
    def reference_noise(self) -> FloatArray:
        """Standard deviation of every coordinate of the reference, as planned."""
        if self._reference is None:
            return np.empty(0)
        scale = self._reference.scale[self._reference.columns]
        return self._reference.deviation / self.n_rows * scale

    def part(self, record: FloatArray, label: float) -> FloatArray:
        """Return what a record adds to a gradient, by the clipping that trains."""
        return self.sum((record[None], np.array([label])))

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds to a gradient, shape (n_records, n)."""
        return np.stack([self.part(*record) for record in zip(codes, y, strict=True)])

    def sum(self, table: Table) -> FloatArray:
        """Return what all records of a table add together."""
        import torch

        sums = self.module.clipped_sum(*self.batch(*table))
        flat = torch.cat([part.flatten() for part in sums.values()])
        return flat.numpy(force=True).astype(np.float64) / self._expected_batch

    def seen_noise(self, n_draws: int) -> FloatArray:
        """Return the deviation of the noise of a step as drawn, not as planned."""
        nothing = self.module.step_noise.new_zeros(n_draws, self.step_noise.size)
        drawn = self.module.noisy_sum(nothing).std(0).numpy(force=True)
        return np.asarray(np.maximum(drawn, LEAST_NOISE) / self._expected_batch)

    def sample(
        self,
        weights: Sequence[Weights],
        table: Table,
        n_runs: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Return what the loop releases, one training per row."""
        del rng  # training has its own
        return np.stack([self._run(weights, table) for _ in range(n_runs)])

    def _run(self, weights: Sequence[Weights], table: Table) -> FloatArray:
        self.begin(table)
        seen = [np.empty(0)]
        for own, batch in zip(weights, self.loader, strict=True):
            self.place(own)
            self.module.backward(*batch)
            seen += self._gradients()
            self._optimizer.step()
        seen[0] = self.released_reference()
        return np.concatenate(seen)

    def _gradients(self) -> Iterator[FloatArray]:
        for parameter in self.parameters:
            assert parameter.grad is not None  # the step has written them
            yield parameter.grad.flatten().numpy(force=True).astype(np.float64)


class _NoNoise:
    """Stands for the generator of noise and gives zeros: to search."""

    def standard_normal(self, size: Any) -> FloatArray:
        return np.zeros(size)


def loop_challenges(
    training: "PrivateTraining",
    *,
    class_names: Sequence[str] | None = None,
    n_runs: int = N_RUNS,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[Table], ...]:
    """Challenge the loop of a training, class by class.

    The training is as `make_private` returned it, not trained yet, with two or a few
    steps, since the budget is divided among them. It is spent afterwards: parameters
    are anywhere, and rows are replaced by made-up ones before anything is run. Classes
    are by default all of the certificate; seed and deadline as in `descent_challenges`.

    Guarantee
    ---------
    Neighbors of the class they are named for, at parameters of the adversary's choice,
    which training is certified for (`docs/theory/audit.md`).
    """
    module = training.module
    if module.steps_charged > 0:
        raise GuaranteeVoidError(
            f"the training has taken {module.steps_charged} steps, and an audit would "
            "take them again. Make one for the audit with the same arguments."
        )
    if module.plan.noise.n_steps < 2:
        raise CorrDPError(
            "the training has one step, and noise that is used twice shows in two. "
            "Make one for the audit with epochs for two steps or a few."
        )
    loop = TrainingLoop(training)
    features = training.loader.features
    if not features.is_floating_point() or features.shape[1:] != (loop.n_columns,):
        shape = ", ".join(map(str, ("n", *features.shape[1:])))
        raise CorrDPError(
            f"the training reads {features.dtype} of shape ({shape}), and an audit "
            f"makes records of the {loop.n_columns} columns that the policy encodes: "
            "all of them would look alike to the module. Audit a training on encoded "
            "columns, reshaped inside the module."
        )
    certificate = module.certificate()
    claims = claims_of(certificate)
    leakage = certificate.leakage.distances(loop.policy)
    classes = [
        neighbor
        for neighbor in neighbor_classes(loop.policy, leakage)
        if class_names is None or neighbor.name in class_names
    ]
    return challenges_of_loop(
        loop,
        classes,
        lambda class_name: {"": claims[class_name]},
        n_runs=n_runs,
        random_state=random_state,
        deadline=deadline,
    )


def challenges_of_loop(
    loop: TrainingLoop,
    classes: Sequence[NeighborClass],
    stated: ClaimsOfClass,
    *,
    n_runs: int = N_RUNS,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[Table], ...]:
    """Challenge a loop, by classes with what is stated for each: see `step_challenges`.

    Other parameters are those of `loop_challenges`.

    Guarantee
    ---------
    That of `loop_challenges` (`docs/theory/audit.md`).
    """
    rng = np.random.default_rng(random_state)
    deadline = deadline or Deadline()
    challenges = []
    for index, neighbor in enumerate(classes):
        own = deadline.share(1.0 / (len(classes) - index))
        pair, weights = worst_steps(loop, neighbor, rng, own)
        first, second = (loop.table(*record) for record in pair.records)
        attacks = _attacks(loop, first, second, weights)
        challenges += [
            Challenge(
                target=f"training loop, white box{kind and f', {kind}'}",
                class_name=neighbor.name,
                claim=claim,
                first=first,
                second=second,
                sample=partial(loop.sample, weights),
                attacks=attacks,
                n_runs=n_runs,
                batch=250,
            )
            for kind, claim in stated(neighbor.name).items()
        ]
    return tuple(challenges)


def label_values(policy: Policy) -> tuple[float, ...]:
    """Return the encoded labels of a policy, at their extremes."""
    domain = None if policy.label is None else policy.label.domain
    if isinstance(domain, NumberDomain):
        return (-0.5, 0.5)
    n_levels = 2
    if isinstance(domain, CategoryDomain):
        n_levels = len(domain.levels) + domain.other
    return tuple(float(level) for level in range(n_levels))


def _attacks(
    loop: TrainingLoop,
    first: Table,
    second: Table,
    weights: Sequence[Weights],
) -> tuple[Attack, ...]:
    """Return likelihood ratios under the planned noise, of all outputs and of parts.

    All together; each release by itself, which shows noise that is missing; differences
    of two steps, which show noise that is used twice. Of samples the first is that of
    the mixture over all of them.
    """
    tables = (first, second)
    means = [loop.quiet_reference(table) for table in tables]
    moves = [means[1] - means[0]]
    parts: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for own in weights:
        loop.place(own)
        for seen, (codes, y) in zip(parts, tables, strict=True):
            seen.append(loop.parts(codes[:FEWEST_ROWS], y[:FEWEST_ROWS]))
        moves.append(parts[1][-1][0] - parts[0][-1][0])  # of the record that differs
    noise = np.concatenate([loop.reference_noise, *[loop.step_noise] * len(weights)])
    whole = np.concatenate(moves)
    nothing = np.zeros_like(whole)
    pieces = [whole]
    places = [slice(*ends) for ends in pairwise(np.cumsum([0, *map(len, moves)]))]
    for place in places:
        alone = nothing.copy()
        alone[place] = whole[place]
        pieces.append(alone)
    for one, other in pairwise(places[1:]):
        contrast = nothing.copy()
        contrast[one] = whole[one] - whole[other]
        contrast[other] = -contrast[one]
        pieces.append(contrast)
    names = ["likelihood", "reference alone"]
    names += [f"step {number + 1} alone" for number in range(len(weights))]
    names += ["difference of two steps"] * (len(weights) - 1)
    attacks: list[Attack] = [
        LikelihoodAttack(gaussian_score(nothing, move, noise), name)
        for name, move in zip(names, pieces, strict=True)
        if move.any()
    ]
    if loop.rate is not None:
        steps = [loop.step_noise] * len(weights)
        score = sampled_score(*parts, steps, rate=loop.rate)
        attacks.insert(0, LikelihoodAttack(score, "likelihood of samples"))
    return (*attacks, LinearAttack())
