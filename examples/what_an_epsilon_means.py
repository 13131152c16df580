"""What an epsilon means for an attacker who knows everything else.

Upper bounds, proved; no data is involved.
"""

from corrdp.accounting import GaussianEvent, attack_risk, gaussian_mu

epsilons = [0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
picture = []
for epsilon in epsilons:
    risk = attack_risk([GaussianEvent(gaussian_mu(epsilon=epsilon, delta=1e-6))])
    picture += [
        {"epsilon": epsilon, "what": "even odds become", "share": risk.even_odds},
        {"epsilon": epsilon, "what": "10 % guess becomes", "share": risk.guess[0.1]},
    ]
    print(f"epsilon {epsilon:>3}: even odds become {risk.even_odds:.1%} at most")
