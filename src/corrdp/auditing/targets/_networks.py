"""Steps of networks: the clipped sum and the noise of `corrdp.torch`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim, claims_of
from corrdp.auditing.targets._besides_steps import reference_challenges
from corrdp.auditing.targets._descent import both_claims, runs_to_refute
from corrdp.auditing.targets._neighbors import RecordPair
from corrdp.auditing.targets._steps import (
    LEAST_NOISE,
    NoisySteps,
    central_table,
    step_challenges,
)
from corrdp.estimators import PrivateNetwork
from corrdp.exceptions import CorrDPError
from corrdp.policy import (
    Block,
    CategoryDomain,
    NeighborClass,
    NumberDomain,
    Policy,
    neighbor_classes,
    policy_blocks,
    require_policy,
)
from corrdp.training import central_reference, standardizing_scale

if TYPE_CHECKING:
    import torch

    from corrdp.torch import PrivateTraining

_SPREADS = (1.0, 3.0, 10.0)  # of the weights that the adversary tries
_STARTS = 3
_NOISE_DRAWS = 1000
_CLIMBS = 100


class NetworkSteps(NoisySteps):
    """Noisy sums of a private module at parameters fixed in advance.

    Guarantee
    ---------
    None is given, one is attacked: that of `corrdp.torch.PrivateModule`, at any
    parameters (`docs/theory/audit.md`).
    """

    def __init__(
        self,
        training: "PrivateTraining",
        blocks: Sequence[Block],
        labels: Sequence[float],
        weights: "Sequence[torch.Tensor]",
    ) -> None:
        self.blocks, self.labels = blocks, labels
        self._module, self._loader = training.module, training.loader
        self._n_steps = self._module.plan.noise.n_steps
        self._center = central_reference(blocks)
        self._scale = standardizing_scale(blocks)
        self._training, self._weights = training, weights
        n_outputs = sum(weight.numel() for weight in self._weights)
        drawn = self.sample(np.zeros(n_outputs), _NOISE_DRAWS, None)
        self.noise_scale = drawn.std(axis=0)  # as seen, not as planned

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds: the clipped sum of a batch of one."""
        return np.stack(
            [self.given(codes[i : i + 1], y[i : i + 1]) for i in range(len(codes))]
        )

    def given(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return the clipped sum of a table, as a step computes it."""
        import torch

        place_weights(self._module.module.parameters(), self._weights)
        scaled = torch.tensor((codes - self._center) * self._scale)
        sums = self._module.clipped_sum(
            scaled.to(self._loader.features), torch.tensor(y).to(self._loader.labels)
        )
        flat = torch.cat([part.flatten() for part in sums.values()])
        return flat.double().numpy()

    def sample(self, given: FloatArray, n_runs: int, rng: object) -> FloatArray:
        """Return means over all steps of `PrivateModule.noisy_sum`.

        All steps are at the same parameters: their mean says all that they say.
        """
        import torch

        del rng  # the module has its own
        repeated = torch.tensor(given).to(self._loader.features).expand(n_runs, -1)
        mean = torch.zeros(n_runs, given.size, dtype=torch.float64)
        for _ in range(self._n_steps):
            mean += self._module.noisy_sum(repeated)
        return (mean / self._n_steps).numpy()

    def sharpened(
        self, pair: RecordPair, rng: np.random.Generator, deadline: Deadline
    ) -> "NetworkSteps":
        """Climb to parameters at which the pair moves the outputs further."""
        generator = seeded(rng)
        best, reached = self._weights, self._movement(self._weights, pair)
        for trial in range(_CLIMBS):
            if deadline.is_over():
                break
            tried = nearby(best, 0.5 ** (1 + 4 * trial // _CLIMBS), generator)
            movement = self._movement(tried, pair)
            if movement > reached:
                best, reached = tried, movement
        return NetworkSteps(self._training, self.blocks, self.labels, best)

    def _movement(self, weights: "Sequence[torch.Tensor]", pair: RecordPair) -> float:
        self._weights, kept = weights, self._weights
        codes, labels = (np.array(part) for part in zip(*pair.records, strict=True))
        first, second = self.parts(codes, labels)
        self._weights = kept
        unit = np.where(self.noise_scale > 0.0, self.noise_scale, LEAST_NOISE)
        return float(np.linalg.norm((second - first) / unit))


def network_challenges(
    estimator: PrivateNetwork,
    *,
    n_rows: int,
    n_steps: int = 2,
    n_runs: int = 4000,
    nominal: Mapping[str, float] | None = None,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the steps of a network estimator, class by class.

    Parameters
    ----------
    estimator : MLPClassifier or MLPRegressor
        With its policy and budget; need not be fitted.
    n_rows : int
        Rows that training is planned for.
    n_steps : int
        Steps among which the budget is divided.
    n_runs : int
        Runs on each neighbor.
    nominal : mapping of str to float, optional
        Under ``theorem``, the epsilon that the paper's formula is meant to give.
    random_state, deadline
        As in `descent_challenges`.

    Guarantee
    ---------
    Neighbors of the class they are named for, at parameters of the adversary's choice,
    which training is certified for (`docs/theory/audit.md`).
    """
    # Of the estimator's own seed noise would be the same in every audit.
    seeded_copy = type(estimator)(
        **estimator.get_params(deep=False) | {"random_state": random_state}
    )
    refuse_samples(estimator)
    training, policy = network_training(seeded_copy, n_rows, n_steps=n_steps)
    claims = claims_of(training.module.certificate())

    def stated(class_name: str) -> Mapping[str, Claim]:
        if nominal is None:
            return {"": claims[class_name]}
        return both_claims(nominal, claims[class_name], class_name)

    blocks, labels = policy_blocks(policy), label_values(policy)
    seeds = np.random.default_rng(random_state)
    parameters = list(training.module.module.parameters())

    def steps(spread: float) -> NetworkSteps:
        weights = random_weights(parameters, repeat(spread), seeded(seeds))
        return NetworkSteps(training, blocks, labels, weights)

    classes = network_classes(estimator, policy)
    reference = training.module.plan.reference
    first: tuple[Challenge[FloatArray], ...] = ()
    if reference is not None:
        first = reference_challenges(
            reference, classes, n_rows, random_state=random_state
        )
    return first + step_challenges(
        [steps(spread) for spread in _SPREADS for _ in range(_STARTS)],
        classes,
        stated,
        name="network steps, white box",
        n_rows=n_rows,
        n_runs=max(n_runs, runs_to_refute(nominal or {})),
        rng=seeds,
        deadline=deadline or Deadline(),
    )


def refuse_samples(estimator: PrivateNetwork) -> None:
    """Raise if an estimator trains on samples: scores would presume all rows."""
    if estimator.batch_size is not None:
        raise CorrDPError(
            f"batch_size={estimator.batch_size!r}: this audit attacks full batches. "
            "Audit the loop that trains on samples: make_private with the same policy, "
            "budget and batch size, two steps, and audit what it returns."
        )


def network_training(
    estimator: PrivateNetwork,
    n_rows: int,
    *,
    n_steps: int | None = None,
    rows: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[Any, Policy]:
    """Return the private training of an estimator, and the policy that it keeps.

    On codes and labels that are given, or on central rows.
    """
    remedy = "Audit an estimator with the policy of its table."
    policy = require_policy(estimator.policy, remedy=remedy)
    blocks, labels = policy_blocks(policy), label_values(policy)
    codes, y = rows or central_table(blocks, labels, n_rows)
    training = estimator.private_training(
        (codes - central_reference(blocks)) * standardizing_scale(blocks),
        y,
        n_outputs=1 if labels[0] < 0 else len(labels),
        n_steps=n_steps,
    )
    return training, training.module.terms.policy


def network_classes(
    estimator: PrivateNetwork, policy: Policy
) -> tuple[NeighborClass, ...]:
    """Return the classes that the training of an estimator protects."""
    leakage = estimator.leakage if policy.insensitive else None
    if leakage is None or isinstance(leakage, Mapping | float | int):
        return neighbor_classes(policy, leakage)
    return neighbor_classes(policy, leakage.distances())


def label_values(policy: Policy) -> tuple[float, ...]:
    """Return the encoded labels of a policy, at their extremes."""
    domain = None if policy.label is None else policy.label.domain
    if isinstance(domain, NumberDomain):
        return (-0.5, 0.5)
    n_levels = 2
    if isinstance(domain, CategoryDomain):
        n_levels = len(domain.levels) + domain.other
    return tuple(float(level) for level in range(n_levels))


def seeded(rng: np.random.Generator) -> "torch.Generator":
    """Return a generator of torch with a seed of its own."""
    import torch

    return torch.Generator().manual_seed(int(rng.integers(2**31)))


def random_weights(
    parameters: "Sequence[torch.Tensor]",
    spreads: Iterable[float],
    generator: "torch.Generator",
) -> list["torch.Tensor"]:
    """Return parameters drawn anew: at spread 1 as wide as training starts with."""
    import torch

    return [
        spread
        * torch.randn(parameter.shape, generator=generator).to(parameter)
        / (parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 1.0)
        for parameter, spread in zip(parameters, spreads, strict=False)
    ]


def nearby(
    weights: "Sequence[torch.Tensor]", size: float, generator: "torch.Generator"
) -> list["torch.Tensor"]:
    """Return parameters that are moved by a part of their mean size."""
    import torch

    return [
        weight
        + size
        * weight.abs().mean()
        * torch.randn(weight.shape, generator=generator).to(weight)
        for weight in weights
    ]


def place_weights(
    parameters: "Iterable[torch.Tensor]", weights: "Sequence[torch.Tensor]"
) -> None:
    """Set the trained parameters."""
    import torch

    with torch.no_grad():
        for parameter, value in zip(parameters, weights, strict=True):
            parameter.copy_(value)
