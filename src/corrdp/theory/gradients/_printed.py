r"""Constants of Examples 3.5 and 3.6 as the paper prints them.

Both examples need :math:`B |\theta_i| \le C D / m` for all i, which a bound on the norm
of the coefficients does not give (E7), and neither divides by L although Assumption
3.4 multiplies by it: read them at L = 1.
"""

from corrdp._validate import check_count, check_real
from corrdp.theory._checks import check_positive
from corrdp.theory.gradients._model import GradientConstants


def printed_least_squares_constants(
    *,
    feature_bound: float,
    parameter_radius: float,
    label_bound: float,
    n_columns: int,
    spread_constant: float,
) -> GradientConstants:
    r"""Return the constants of Example 3.5.

    Parameters
    ----------
    feature_bound, parameter_radius, label_bound : float
        B, D and the bound on the absolute label.
    n_columns : int
        m.
    spread_constant : float
        C in :math:`B |\theta_i| \le C D / m`.

    Returns
    -------
    constants : GradientConstants
        :math:`L = 2 B (D + \max |y|)`, :math:`C_1 = 4 B + 2 C D / m`,
        :math:`C_2 = 2 C D`; `relaxed` is the larger of C_1 and C_2.

    Guarantee
    ---------
    None: L holds for B at most 1 only, where :math:`|\theta^\top x| \le D`. Use
    `gradient_constants`. Note: `docs/theory/paper_bounds.md`.
    """
    bound = check_positive("feature_bound", feature_bound)
    radius = check_positive("parameter_radius", parameter_radius)
    label = check_real("label_bound", label_bound, lower=0.0)
    spread = check_positive("spread_constant", spread_constant)
    columns = check_count("n_columns", n_columns)
    direct = 4 * bound + 2 * spread * radius / columns
    cross = 2 * spread * radius
    return GradientConstants(
        lipschitz=2 * bound * (radius + label),
        direct=direct,
        cross=cross,
        relaxed=max(direct, cross),
    )


def printed_logistic_constants(
    *,
    feature_bound: float,
    parameter_radius: float,
    n_columns: int,
    spread_constant: float,
) -> GradientConstants:
    r"""Return the constants of Example 3.6.

    Parameters
    ----------
    feature_bound, parameter_radius : float
        B and D.
    n_columns : int
        m.
    spread_constant : float
        C in :math:`B |\theta_i| \le C D / m`.

    Returns
    -------
    constants : GradientConstants
        :math:`C_1 = 2 + C D / (4 m)`, :math:`C_2 = C D / 4`; L = B, which the paper
        does not print but :math:`|\sigma - y| \le 1` gives; `relaxed` is the larger
        of C_1 and C_2.

    Guarantee
    ---------
    None without the condition on every coefficient. Use `gradient_constants`. Note:
    `docs/theory/paper_bounds.md`.
    """
    bound = check_positive("feature_bound", feature_bound)
    radius = check_positive("parameter_radius", parameter_radius)
    spread = check_positive("spread_constant", spread_constant)
    columns = check_count("n_columns", n_columns)
    direct = 2 + spread * radius / (4 * columns)
    cross = spread * radius / 4
    return GradientConstants(
        lipschitz=bound, direct=direct, cross=cross, relaxed=max(direct, cross)
    )
