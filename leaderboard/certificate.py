"""What the certificate of parity says of a run, by its family, head, precision and device.

`make parity` trains small networks beside transformers' own classes (docs/parity.md) and leaves
what held in certificate.json.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.tasks.suites import find_task


@cache
def certificate() -> Mapping[str, Any]:
    """When it was `measured`, of which `version` and `method` of ours, and what held.

    `families` have by head type whether each precision held; one that was not compared is absent.
    `settings` are those that it has tried values of; the others had their defaults.
    """
    text = (files("benchharness.leaderboard") / "certificate.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def made_by() -> str:
    """The certificate in words: its date, and the versions that it is of."""
    known = certificate()
    return (
        f"{known['measured']}, benchharness {known['version']} (method {known['method']}), "
        f"torch {known['torch']}, transformers {known['transformers']}, {known['device'].upper()}"
    )


def parity_of(run: Result | Failure) -> str:
    """What is proved of a run: "proved, fp32 CPU", or "none" and why; empty if it trained nothing.

    A run of other code than the certificate's has the version that it was proved for.
    """
    job, known = run.job, certificate()
    if isinstance(run, Failure) or job.kind != "model" or not run.cost.steps:
        return ""
    said = run.provenance
    family = str(_part(said, "model").get("family") or (job.stage.family if job.stage else ""))
    device = str(_part(said, "machine").get("device") or "")
    heads, head = known["families"].get(family, {}), find_task(job.task).head
    if lack := _lack(job) or _unknown(family, device):
        return f"none {lack}"
    if head not in heads:
        return "none for this family" + (f"'s {head} head" if heads else "")
    proved = f"{'proved' if heads[head].get(job.precision) else 'not proved'}, {job.precision} CPU"
    if device != known["device"]:
        return f"none on a GPU ({proved})"
    if (job.method, _part(said, "code").get("version")) != (known["method"], known["version"]):
        return f"{proved} of benchharness {known['version']} (method {known['method']})"
    return proved


def _lack(job: Job) -> str:
    """What the certificate has not tried of a job, empty where it has tried all."""
    if len(job.trained_tasks) > 1:
        return "for tasks that are trained together"
    others = sorted(job.settings.keys() - {*certificate()["settings"]})
    others += ["teacher"] if job.teacher else []
    return f"with {', '.join(others)}" if others else ""


def _unknown(family: str, device: str) -> str:
    """What a run from elsewhere or of an older version does not say."""
    lost = [name for name, value in (("family", family), ("device", device)) if not value]
    return f"without its {' and '.join(lost)}, which the run does not say" if lost else ""


def _part(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a provenance; one from elsewhere may have anything there."""
    part = said.get(name) if isinstance(said, Mapping) else None
    return part if isinstance(part, Mapping) else {}
