"""Notes about decoders in the plan of a run: states, chat templates and memory."""

from collections.abc import Collection, Iterator
from pathlib import Path

from benchharness.driver.request import Request
from benchharness.driver.technique import Technique
from benchharness.engines.slots import find_gpus
from benchharness.errors import ModelError
from benchharness.leaderboard.job import Job
from benchharness.machine import estimate_states, main_memory
from benchharness.models import ModelSpec
from benchharness.models.folder import read_object
from benchharness.models.weights import config_folder
from benchharness.recipes.resolve import is_decoder
from benchharness.tasks.suites import find_task


def plan_of(request: Request) -> "Notes":
    """Return the planning hooks, which only write notes."""
    return Notes(device=request.options.device)


class Notes(Technique):
    """Notes about the decoders of a run.

    Args:
        device: The device of the jobs, as in `RunOptions`: "auto", "cpu" or "cuda".
    """

    def __init__(self, *, device: str) -> None:
        self.device = device

    def notes(self, models: Collection[ModelSpec], jobs: Collection[Job]) -> Iterator[str]:
        """Yield the notes about all decoders among the models of a run."""
        decoders = {model.checkpoint: model for model in models if is_decoder(model)}
        for model in decoders.values():
            own = [job for job in jobs if job.checkpoint == model.checkpoint]
            yield from _unseen_words(model, own)
            if has_chat_template(model):
                yield (
                    f"{model.name} has a chat template, which is not used: its texts are read as "
                    "those of a base model."
                )
        notes = list(_too_large(jobs))
        if notes and (self.device == "cpu" or not find_gpus()):  # looking for GPUs takes time
            yield from notes


def _unseen_words(model: ModelSpec, jobs: Collection[Job]) -> Iterator[str]:
    """Yield a note if a decoder tags words, whose states do not depend on later words."""
    causal = [job for job in jobs if "attention" not in job.settings]
    tagged = sorted({job.task for job in causal if find_task(job.task).head == "tag"})
    if tagged:
        yield (
            f"{model.name} is a decoder: in {', '.join(tagged)}, the state of a word does not "
            "depend on the words after it. With --set attention=full, all words see each other."
        )


def has_chat_template(model: ModelSpec) -> bool:
    """Return whether the tokenizer of a model has a template for chats; False if it is unknown."""
    try:
        folder: Path = config_folder(model)
    except ModelError:
        return False
    settings = read_object(folder / "tokenizer_config.json")
    return bool(settings.get("chat_template")) or (folder / "chat_template.jinja").is_file()


def _too_large(jobs: Collection[Job]) -> Iterator[str]:
    """Yield a note for each model whose training needs more than this machine's main memory."""
    most, found = main_memory(), dict[str, int]()
    trained = (job for job in jobs if job.kind == "model" and not job.is_zero_shot)
    for job in trained:
        if "lora_rank" not in job.settings and (needed := estimate_states(job)) > most:
            found[job.model] = max(needed, found.get(job.model, 0))
    for name, needed in found.items():
        yield (
            f"training all weights of {name} needs about {needed / 1e9:.0f} GB of memory, but this "
            f"machine has {most / 1e9:.0f} GB: pass --set lora_rank=8, which trains low-rank "
            "adapters."
        )
