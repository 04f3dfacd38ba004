"""How long rows are read: as a recipe says, and at most as the encoder reaches."""

from collections.abc import Mapping
from dataclasses import replace

from benchharness.leaderboard.job import SET, Setting
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import reach
from benchharness.tasks.errors import BenchError

MAX_TOKENS = "max_tokens"

USUAL = 512
"""How far an encoder without a limit reads rows of one's own: most were pretrained with as much."""


def within_reach(settings: Mapping[str, Setting], spec: ModelSpec) -> Mapping[str, Setting]:
    """The settings as a model runs them: what a recipe has above its reach is its reach.

    Raises BenchError where the user has typed such a value.
    """
    setting, longest = settings.get(MAX_TOKENS), reach(spec)
    if setting is None or longest is None or int(setting.value) <= longest:
        return settings
    if setting.source.partition(",")[0] == SET:  # "--set, one of 128, 1024" of a sweep
        raise BenchError(
            f"{spec.name} reads at most {longest} tokens: give --set {MAX_TOKENS}={setting.value} "
            "a smaller value, or leave it out."
        )
    source = f"all that {spec.name} reads; {setting.value} by {setting.source}"
    return {**settings, MAX_TOKENS: replace(setting, value=longest, source=source)}


def for_own_rows(spec: ModelSpec) -> Setting:
    """How long rows of the user's own are read: no paper has seen them.

    A row takes as many tokens as it has, so that a bound by the longest one would save nothing.
    """
    longest = reach(spec)
    if longest is None:
        return Setting(value=USUAL, source=f"ours: {spec.name} has no limit of its own")
    return Setting(value=longest, source=f"ours: of rows of your own all that {spec.name} reads")
