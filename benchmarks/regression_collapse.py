"""Simulate how often `bench check` fails if runs collapse, for a table of docs/regression.md.

python -m benchmarks.regression_collapse
"""

from tests.extensions.gate.simulated_suites import alarming_shares

DESIGNS = ((1, 5, 1), (1, 5, 3), (8, 2, 2), (8, 3, 3), (8, 5, 1), (8, 5, 3), (8, 10, 3))
"""Numbers of tasks, of the baseline's seeds and of the check's seeds."""

RATES = (0.0, 0.02, 0.05, 0.5)
CHECKS = 4000


def main():
    print(f"| tasks: seeds | {' | '.join(f'{rate:.0%} collapse' for rate in RATES)} |")
    print("|---" * (1 + len(RATES)) + "|")
    for tasks, before, after in DESIGNS:
        design = {"tasks": tasks, "before": before, "after": after, "checks": CHECKS}
        shares = [alarming_shares(**design, collapsing=rate) for rate in RATES]
        cells = [f"{now:.1%} ({old:.1%})" for old, now in shares]
        print(f"| {tasks}: {before} and {after} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
