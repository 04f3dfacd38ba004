"""Compare every family and head with transformers, and write docs/parity.md (`make parity`).

Exits with 1 if any check fails. `--page` only writes the page again, from the last measurement.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import median, stdev
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

from benchharness.leaderboard.job import METHOD
from benchharness.recipes.classes import KINDS
from benchharness.version import package_version
from benchmarks.certificate import (
    CASES,
    DECODER_CASES,
    DEVIATIONS,
    FURTHER,
    LIMIT,
    LORA,
    STILL,
    VALUES,
    Certified,
    Start,
    certify,
    compare,
    dropout_apart,
    first_token_apart,
    still,
    train_ours,
    train_theirs,
)
from benchmarks.markdown import DASH, table
from benchmarks.masks import same_masks_apart
from benchmarks.planted import DROPOUT_SCALE, PLANTED, planted
from benchmarks.record import ROOT, load, write
from benchmarks.tost import ALL, MEASURES, Equivalence, compared, shown
from tests.helpers.families import DECODERS, FAMILIES, save_family

__all__ = ["DROPOUT_LIMIT", "Findings", "measure_pairs", "page"]

PAGE = ROOT / "docs" / "parity.md"

DROPOUT_LIMIT = 2.5
"""Largest allowed mean of squared z-scores; the mean is about 1 if both sides' dropout is equal."""

TRIED = (
    *(*VALUES, *STILL, "accumulation", "adam_beta1", "adam_beta2", "epochs", "evaluations"),
    *("max_question_tokens", "start_from", "stride", "warmup_ratio"),
)
"""Settings for which the comparison has its own values; all other settings have their defaults."""

WHY_LACKING = {
    "deberta": "choice (no class)",
    "eurobert": "choice, span (no class)",
    "gpt2": "choice (a class with two heads)",
    "openai-gpt": "choice (a class with two heads), span, tag (no class)",
    "t5": "pair, span, ranking (with the decoder), choice (no class)",
}
"""Heads of benchharness without a class to compare with, and the reason; keyed by family."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All measured data of the page.

    Attributes:
        cases: The results for each family and head.
        faults: The difference from transformers that each planted fault causes in benchharness.
        first_token: The result of `first_token_apart`.
        dropout: The result of `dropout_apart`.
        masks: The result of `same_masks_apart`.
        adapters: The results for each decoder and head with low-rank adapters.
    """

    cases: list[Certified]
    faults: Mapping[str, float]
    first_token: Sequence[float]
    dropout: float
    masks: float
    adapters: list[Certified] = field(default_factory=list)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Findings":
        """Build the findings from the plain data of `asdict`."""
        lists = {n: [Certified.of(e) for e in record[n]] for n in ("cases", "adapters")}
        return cls(**{**record, **lists})

    @property
    def red(self) -> list[str]:
        """Names of the checks that fail."""
        found = [f"{each.family} {each.kind}" for each in self.cases if not each.holds]
        found += [f"{each.family} {each.kind} (LoRA)" for each in self.adapters if not each.holds]
        for name, value in self.faults.items():
            limit = DROPOUT_LIMIT if name == DROPOUT_SCALE else LIMIT
            found += [f"planted and not seen: {name}"] if value <= limit else []
        found += ["dropout"] if self.dropout > DROPOUT_LIMIT or self.masks > LIMIT else []
        return found + (["first token"] if max(self.first_token[:2]) > LIMIT else [])


# Measurement, in parts that run in several processes.


def _family(family: str) -> list[Certified]:
    with TemporaryDirectory(prefix="parity-") as folder:
        return [certify(name, kind, Path(folder)) for name, kind in CASES if name == family]


def _adapters(family: str) -> list[Certified]:
    with TemporaryDirectory(prefix="parity-") as folder:
        return [
            certify(name, kind, Path(folder), bf16=False, settings=LORA)
            for name, kind in DECODER_CASES
            if name == family
        ]


def measure_pairs() -> dict[str, Any]:
    """Measure the planted faults, the first token, and dropout, with a pair head on BERT."""
    with TemporaryDirectory(prefix="parity-") as name:
        folder = Path(name)
        start = Start.of(str(save_family(folder / "bert", "bert", **still("bert"))), "pair")
        dropping = str(save_family(folder / "dropping" / "bert", "bert"))
        return {
            "faults": _faults(start, dropping, folder),
            "first_token": first_token_apart(start, folder),
            "dropout": dropout_apart(Start.of(dropping, "pair", settings={})),
            "masks": same_masks_apart(
                Start.of(dropping, "pair", settings={"accumulation": "1"}), folder / "masks"
            ),
        }


def _faults(start: Start, dropping: str, folder: Path) -> dict[str, float]:
    """Return the difference from transformers that each fault causes.

    The fault in dropout is measured on the `dropping` checkpoint.
    """
    expected, found = train_theirs(start), {}
    for fault in PLANTED:
        with planted(fault):
            if fault == DROPOUT_SCALE:
                found[fault] = dropout_apart(Start.of(dropping, "pair", settings={}))
            else:
                ours = train_ours(start, folder / fault.replace(" ", "-"))
                found[fault] = compare(ours, expected).largest
    return found


def measure(jobs: int) -> Findings:
    """Measure everything in `jobs` processes of one thread each."""
    # torch reads the variable when it is imported. Processes are spawned, because threads do not
    # survive a fork.
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        rest = pool.submit(measure_pairs)
        families = [pool.submit(_family, family) for family in (*FAMILIES, *DECODERS)]
        adapted = [pool.submit(_adapters, family) for family in DECODERS]
        for each in (*families, *adapted):
            each.add_done_callback(_tell)
        return Findings(
            cases=[case for each in families for case in each.result()],
            adapters=[case for each in adapted for case in each.result()],
            **rest.result(),
        )


def _tell(done: "Future[list[Certified]]") -> None:
    for case in done.result():
        verdict = "green" if case.holds else "RED"
        print(f"{verdict:6} {case.family} {case.kind}: {case.fp32}", flush=True)


# The page.

PLAIN = """# Parity with transformers

Does benchharness train as transformers does? For this page each head of each family was trained by both, and the two trainings were
compared step by step. The last section compares scores on real data with those of transformers' Trainer.

{verdict}

`make parity` makes these measurements and writes this page. Measured with torch {torch} and transformers {transformers} on a CPU.

## Step by step

Each head of each family, with a small network of random weights, is trained twice for 20 steps: by `run_job`, which trains every job of
benchharness, and by `benchmarks/parity.py`, which trains transformers' task classes in a plain loop. Both start from the same weights, see
the same rows in the same order, and use no dropout. The losses of all steps, all weights at the end and the predictions are compared.

A cell of the table has the largest relative difference in fp32, which should be at most {limit}. A letter marks a [deliberate deviation](#deliberate-deviations)
of benchharness, which the plain loop reproduces for this comparison. If a difference is above {limit}, both are compared with transformers in fp64: the check
passes if benchharness differs from it at most {further:g} times as much as transformers in fp32 does, because the difference is then due to rounding.{exact}

{cases}

In bf16 the losses of benchharness differ from transformers' fp32 losses {near:.1f} times as much as transformers' bf16 losses do (the median of
{halves} cells; {nearest:.1f} to {farthest:.1f}; a check fails above {further:g}{tried}). The bf16 losses of benchharness and transformers differ by {apart}. For comparison,
if the rows of each batch are reversed, transformers' losses change by {turned} (both are medians). In {within} cells
benchharness differs less than that. It cannot do so in all cells: reversing the rows changes only how gradients are summed, while different kernels
round every state differently.

Weights whose gradients consist only of rounding errors, such as the biases of attention keys, are left out of the comparison: at most {unseen:.1f} %
of a network.

Cells without a number have no counterpart in transformers: {lacking}. Not compared in bf16: {without} (DeBERTa v1's classes do not support it).

## Low-rank adapters

Each decoder is also trained with low-rank adapters on all linear layers of its layers (`lora_rank=4`, `lora_alpha=8`), by `run_job` and by
PEFT's model around transformers' class. The table has the largest differences, of the losses, of all adapters and of the head:

{adapters}

## Deliberate deviations

benchharness deviates from transformers on purpose in the following places. "Difference with it" is the largest relative difference that is due to a deviation,
"without it" the largest relative difference of losses if the plain loop reproduces the deviation.

{meant}

Points are the score of benchharness minus that of transformers, on 40 rows.

Weight decay of biases follows the code of the papers. The optimizers of XLNet and Funnel apply weight decay to r_w_bias, r_r_bias and r_s_bias because of their names,
so benchharness does the same. ConvBERT's optimizer excludes every weight that is called bias. The bias of its convolution, which has two dimensions in transformers,
should therefore have no weight decay, but has it in benchharness.

If a row of a multiple-choice task is longer than max_tokens, benchharness shortens only its passage, and run_swag.py shortens the longer of the two texts.

## Planted faults

Would this comparison detect a fault? Ten faults were planted in benchharness, one at a time. A fault is detected if it makes a relative difference above {limit}, or, for the scale of
dropout, a squared z-score above {dropout_limit:g}. The largest differences are: {faults}.

## With dropout

Dropout is random, so it is compared in two ways. If transformers' BERT uses the dropout masks of benchharness, the losses, weights and
predictions after 20 steps differ by at most {masks}. If it draws its own masks, the logits of 24 rows are compared over 300 draws: the squared
z-score of their means and variances is {dropout:.1f} (1 if both have the same distribution; a check fails above {dropout_limit:g}).

{real}
"""  # noqa: E501


def page(
    findings: Findings, facts: Mapping[str, Any], real: Mapping[str, Any] | None = None
) -> str:
    """Return the text of docs/parity.md; `real` is the record of `make equivalence`."""
    cases = {(case.family, case.kind): case for case in findings.cases}
    adapted = {(case.family, case.kind): case for case in findings.adapters}
    known = [case for case in findings.cases if case.bf16 and case.turned]
    halves = [(case.bf16 or 0.0, case.turned or 0.0) for case in known]
    near = [case.rounded[0] / case.rounded[1] for case in findings.cases if case.rounded]
    faults = [f"{name} {_apart(name, value)}" for name, value in findings.faults.items()]
    return PLAIN.format(
        **facts,
        verdict=f"{_verdict(findings)}{_of_real(real)}",
        limit=_short(LIMIT),
        further=FURTHER,
        cases=_table([*FAMILIES, *DECODERS], cases),
        adapters=_table([*DECODERS], adapted),
        halves=len(halves),
        apart=_short(median(apart for apart, _ in halves)),
        turned=_short(median(turned for _, turned in halves)),
        within=sum(apart <= turned for apart, turned in halves),
        near=median(near),
        nearest=min(near),
        farthest=max(near),
        unseen=100 * max(case.unseen for case in findings.cases),
        without=", ".join(f for f in FAMILIES if f not in {case.family for case in known}),
        lacking="; ".join(f"{family} {why}" for family, why in _lacking().items()),
        meant="\n".join(_meant(findings)),
        faults=", ".join(faults),
        dropout=findings.dropout,
        masks=_short(findings.masks),
        dropout_limit=DROPOUT_LIMIT,
        real=_real(real),
        tried=_tried(findings.cases),
        exact=_exact(findings.cases),
    )


def _table(families: Sequence[str], cases: Mapping[tuple[str, str], Certified]) -> str:
    rows = [[family, *(_cell(cases.get((family, kind))) for kind in KINDS)] for family in families]
    return "\n".join(table(["family", *KINDS], rows))


def _lacking() -> dict[str, str]:
    """Return the heads that have no class in transformers, keyed by family."""
    heads = {
        family: [kind for kind in KINDS if (family, kind) not in DECODER_CASES]
        for family in DECODERS
    }
    return {**WHY_LACKING, **{f: f"{', '.join(kinds)} (no class)" for f, kinds in heads.items()}}


def _verdict(findings: Findings) -> str:
    if findings.red:
        return f"**Failed: {', '.join(findings.red)}.**"
    return (
        "Yes: every comparison in fp32 passes, and so does every check of bf16, faults and dropout."
    )


def _of_real(record: Mapping[str, Any] | None) -> str:
    """Describe how many scores on real data are equivalent, and the verdicts on the others."""
    if record is None:
        return ""
    found = compared(record["runs"])
    alike = sum(each.verdict == "equivalent" for each in found)
    others = (f"{e.task} {e.score} is {e.verdict}" for e in found if e.verdict != "equivalent")
    return (
        f" [On real data](#on-real-data), {alike} of {len(found)} scores are equivalent; "
        f"{', '.join(others)}."
    )


def _spread(found: Sequence[Equivalence]) -> str:
    """Describe the scores that vary more than twice as much on one side, with their minima."""
    wide = [each for each in found if _ratio(each) > WIDE]
    said = (
        f"{e.task} {e.score} (lowest scores {min(e.ours):.1f} and {min(e.theirs):.1f})"
        for e in wide
    )
    if not wide:
        return ""
    return (
        " The standard deviation over seeds is more than twice as large on one side as on the "
        f"other for {', '.join(said)}."
    )


WIDE = 2.0


def _ratio(each: Equivalence) -> float:
    low, high = sorted((stdev(each.ours), stdev(each.theirs)))
    return high / low if low else 1.0


REAL = """## On real data

`make equivalence` trains MiniLM on real files (bf16, {processor}), by `run_job` and by transformers'
Trainer with its own code for reading, encoding and scoring. With the same seed both start from the same head and use
the rows in the same order; only dropout differs.

The table has the mean scores of benchharness ("ours") and of the Trainer over seeds (with the standard deviation), and the mean of their differences with its intervals. Two one-sided tests (TOST)
decide whether the two are equal within 1 point, for correlations within 1.5 points. "Equivalent" means p < 0.05, "different" means that 0 is
outside of the 95 % interval, and "open" means neither: there were too few seeds.

{table}

{about}{spread}{absent}"""  # noqa: E501

ABOUT = """Rows and epochs: {rows}. For "SQuAD" the passage of a question is only the sentence with
the answer, "choice" asks which of four sentences of a passage contains the answer, and "tags" are
ReCoRD's entities: the scores of these three are not scores of a benchmark. Rows and epochs were
changed after two earlier attempts, in which scores varied too much between seeds to show a
difference of a point."""


def _real(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return ""
    setups = {run["task"]: run["setup"] for run in record["runs"]}
    rows = (f"{name} {_count(s['rows'])}, {s['epochs']:g}" for name, s in setups.items())
    absent = [name for name in MEASURES if name not in setups]
    return REAL.format(
        processor=record["machine"]["processor"],
        table="\n".join(shown(compared(record["runs"]))),
        about=ABOUT.format(rows="; ".join(rows)),
        spread=_spread(compared(record["runs"])),
        absent=f" Not yet run: {', '.join(absent)}." if absent else "",
    )


def _count(rows: int) -> str:
    return "all" if rows == ALL else str(rows)


def _exact(cases: Sequence[Certified]) -> str:
    """Describe how far both sides are from fp64, for each case that was compared with fp64."""
    found = [
        f"{case.family} {case.kind} {case.exact[0]:.1e} ({case.exact[1]:.1e})"
        for case in cases
        if case.exact
    ]
    if not found:
        return ""
    return f" Distances from fp64, transformers' in parentheses: {', '.join(found)}."


def _tried(cases: Sequence[Certified]) -> str:
    """Describe the cases that were measured with more than one seed."""
    found = [
        f"{case.family} {case.kind} with {case.seeds} seeds" for case in cases if case.seeds > 1
    ]
    return f"; {', '.join(found)}" if found else ""


def shipped(findings: Findings, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of leaderboard/certificate.json, which is part of the package."""
    families: dict[str, Any] = {}
    for case in findings.cases:
        held = {"fp32": case.holds_in_fp32}
        held |= {} if case.rounded is None else {"bf16": case.holds}
        families.setdefault(case.family, {})[case.kind] = held
    return {**facts, "device": "cpu", "settings": sorted(TRIED), "families": families}


def _short(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else f"{value:.0e}".replace("e-0", "e-")


def _letters(case: Certified) -> str:
    """Return the letters of the deviations with a visible effect; decay of zeros has none."""
    return "".join(letter for letter, (apart, _) in case.meant.items() if apart > LIMIT)


def _cell(case: Certified | None) -> str:
    if case is None:
        return DASH
    letters = _letters(case)
    return _short(case.fp32.largest) + (f"<sup>{letters}</sup>" if letters else "")


def _meant(findings: Findings) -> list[str]:
    rows = []
    for letter, deviation in DEVIATIONS.items():
        seen = [case for case in findings.cases if letter in _letters(case)]
        if not seen:
            continue
        effects = [case.meant[letter][1] for case in seen]
        rows.append(
            [
                f"{letter}: {deviation.why}",
                f"{len(seen)}",
                _short(max(case.meant[letter][0] for case in seen)),
                _short(max(case.fp32.losses for case in seen)),
                f"{min(effects):+.1f} to {max(effects):+.1f}",
            ]
        )
    first, whole, score = findings.first_token
    rows.append(
        ["last layer at the first token", "1", _short(first), _short(whole), f"{score:+.1f}"]
    )
    return table(["deviation", "cells", "difference with it", "without it", "points"], rows)


def _apart(name: str, value: float) -> str:
    return f"z² {value:.1f}" if name == DROPOUT_SCALE else _short(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument(
        "--page", action="store_true", help="write the page without measuring again"
    )
    options = parser.parse_args()
    record = load("parity") if options.page else None
    if record is None:
        findings = measure(options.jobs)
        facts = {
            "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
            "version": package_version(),
            "method": METHOD,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        record = {"facts": facts, **asdict(findings)}
        write("parity", record)
    facts = record.pop("facts")
    findings = Findings.of(record)
    write("certificate", shipped(findings, facts), ROOT / "leaderboard")
    PAGE.write_text(page(findings, facts, load("equivalence")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}" + "".join(f"\nFAILED: {each}" for each in findings.red))
    sys.exit(bool(findings.red))


if __name__ == "__main__":
    main()
