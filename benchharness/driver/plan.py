"""From what a user asks for to jobs: models x tasks x seeds, each with the digests of its rows."""

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple, Self

from benchharness.driver.request import Request, leading_tasks
from benchharness.driver.technique import Technique, techniques_of
from benchharness.engines.slots import have_bf16, machine_of
from benchharness.leaderboard.job import MACHINE, Job, Kind, Setting, Start
from benchharness.machine import cpu_has_bf16
from benchharness.models import BASELINES, ModelSpec, weights_identity
from benchharness.models.families import is_unchecked
from benchharness.models.folder import stated_pooling
from benchharness.models.weights import (
    family_config,
    reach,
    require_checkpoint,
    require_listed,
)
from benchharness.plugins import plugins_of
from benchharness.recipes import ResolvedRecipe, resolve_sweep
from benchharness.recipes.resolve import start_task, unused_settings, with_start
from benchharness.recipes.zero_shot import (
    OF_FOLDER,
    POOLING,
    TIMED_DOCUMENTS,
    is_readable,
    timed_recipes,
    zero_shot_recipe,
)
from benchharness.splits import languages_of
from benchharness.tasks.errors import BenchError, DataError, ModelError
from benchharness.tasks.read import SplitRows, document_digest, has_split, read, read_train
from benchharness.tasks.sources import Data, missing_files, parse_data
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import Task, TimedTask

Recipes = Mapping[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]]
"""The points of the recipe of every model on every task: one, or those of a sweep."""


class RowCounts(NamedTuple):
    """Of one split: examples that are used, and rows that a convention or the limit left out.

    `odd` counts what is odd about it as it was released.
    """

    used: int
    left_out: int
    cut: int
    odd: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The jobs of a request, those of the baselines last, and the rows of every split of theirs.

    `rows` are by fingerprint, so that a split that several jobs share is counted once. `left_out`
    says of tasks that were asked for which files of theirs are missing, `notes` which values that
    were asked for no job has. `grid` are all jobs where these are a part of them, as of a halving.
    """

    jobs: tuple[Job, ...]
    rows: Mapping[str, RowCounts]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    grid: tuple[Job, ...] = ()

    @property
    def used_rows(self) -> dict[str, int]:
        """How many examples the splits have, by fingerprint."""
        return {digest: counts.used for digest, counts in self.rows.items()}

    def part(self, keys: Iterable[str]) -> "Plan":
        """The jobs of these keys, and those that they need."""
        wanted = with_starts(keys, self.jobs)
        jobs = tuple(job for job in self.jobs if job.key in wanted)
        return replace(self, jobs=jobs, grid=self.grid or self.jobs)

    def left_out_rows(self) -> dict[str, int]:
        """How many rows the benchmarks' conventions leave out, by "task:split", where any.

        What a task of one's own leaves out was said where it was found.
        """
        jobs = (job for job in self.jobs if job.definition is None)
        counts = self._counts(jobs)
        return {name: found.left_out for name, found in counts.items() if found.left_out}

    def odd_rows(self) -> dict[str, Mapping[str, int]]:
        """What is odd about the splits as they were released, by "task:split"."""
        return {name: found.odd for name, found in self._counts(self.jobs).items()}

    def _counts(self, jobs: Iterable[Job]) -> dict[str, RowCounts]:
        splits = {name: digest for job in jobs for name, digest in job.fingerprints.items()}
        return {name: self.rows[digest] for name, digest in splits.items() if digest in self.rows}


def plan(request: Request) -> Plan:
    """The jobs of every model, task, configuration and seed, each once, in that order.

    A task that another one's model predicts (AX by MNLI's) becomes splits of that one's job; its
    rows belong to the job whenever the data have them, so that asking for MNLI alone and for all of
    GLUE plan the same job. A job that starts from another one's encoder, or learns from it, stands
    behind that, asked for or not; baselines come last. Raises BenchError, with a line for each
    setting that is wrong, before any data are read, and DataError where a split that is needed is
    malformed, or with a line for each task whose files are missing.
    """
    for technique in techniques_of(request):
        technique.check(request)

    # ---- Who is asked for: encoders, and baselines.
    encoders = _find_encoders(request)
    asked = [model for model in request.models if model.is_baseline]
    below = BASELINES if request.options.baselines else ()
    baselines = tuple(dict.fromkeys((*below, *asked)))

    # ---- Which tasks can run: what their recipes need has to be there.
    recipes = Resolver.of(request, encoders).single(leading_tasks(request.single_tasks))
    source, leading = parse_data(request.data), leading_tasks(request.every_task)
    _check_baselines(asked, leading)
    learned = _learned_tasks(leading, recipes, baselines)
    learned |= {task.name for task in leading_tasks(request.multi_task)}
    left_out = _left_out(request, recipes, source, learned)
    request = request.without(left_out)

    # ---- The recipes of these tasks, and of the jobs that techniques add.
    resolver = Resolver.of(request, encoders)
    # Once more: tasks may have been left out, and with them what only they start from.
    recipes = resolver.single(leading_tasks(request.single_tasks))
    added = [pair for each in resolver.techniques for pair in each.resolve(resolver, recipes)]
    learned |= {task for _, task in added}

    # ---- Read the rows, and make the jobs.
    reader = _Reader(source, request, learned)
    parts = _read_parts(reader, request, resolver, recipes, added)
    for technique in parts.techniques:
        technique.check_rows(parts)
    trained = parts.trainings(encoders, leading_tasks(request.single_tasks))
    jobs: dict[str, Job] = {}
    for job in (*trained, *parts.baselines(baselines, leading_tasks(request.every_task))):
        # The MNLI run that three tasks start from comes three times; it keeps its first place,
        # before all of them.
        jobs.setdefault(job.key, job)
    return Plan(
        jobs=tuple(jobs.values()),
        rows=reader.rows,
        left_out=left_out,
        notes=(
            *_unused_poolings(encoders, jobs.values()),
            *_unchecked_families(encoders),
            *_unused_settings(request, jobs.values()),
            *_long_rows(jobs.values(), reader.words),
            *_few_steps(request, jobs.values(), reader.rows),
            *unreadable(encoders, leading_tasks(request.single_tasks)),
        ),
    )


FEW_STEPS, ENOUGH_STEPS = 20, 80
"""Most encoders learn nothing in fewer than `FEW_STEPS` steps of training; with `ENOUGH_STEPS` most
learn from a small file."""


def _few_steps(
    request: Request, jobs: Iterable[Job], rows: Mapping[str, RowCounts]
) -> Iterator[str]:
    """A sentence for each task of somebody's own data that is trained on for few steps, unasked."""
    if request.options.limit or {"epochs", "steps"} & request.overrides.keys():
        return
    own = (job for job in jobs if job.definition and job.kind == "model" and not job.is_zero_shot)
    for title, job in {job.title: job for job in own}.items():
        values = job.values
        splits = [d for name, d in job.fingerprints.items() if name.endswith(":train")]
        used = int(values.get("shots", 0)) or sum(rows[d].used for d in splits if d in rows)
        of_epoch = math.ceil(used / int(values["batch_size"]))
        steps = int(values.get("steps", 0)) or round(of_epoch * float(values["epochs"]))
        if 0 < steps < FEW_STEPS:
            epochs = math.ceil(ENOUGH_STEPS / of_epoch)
            yield (
                f"{title}: {used} training rows are {steps} steps, which are few to learn from; "
                f"--set epochs={epochs} takes {epochs * of_epoch}."
            )


def with_starts(keys: Iterable[str], jobs: Iterable[Job]) -> set[str]:
    """The keys and those of the jobs that they need, in the end."""
    return {*_with_needs([*keys], {job.key: job.needs for job in jobs})}


def _with_needs(found: list[str], needs: Mapping[str, Collection[str]]) -> list[str]:
    """These and what they need, and what that needs."""
    known = {*found}
    for each in found:
        # `found` grows while it is gone through, so what is needed by these comes too.
        new = sorted({*needs[each]} - known)
        found += new
        known.update(new)
    return found


def _unused_poolings(models: Iterable[ModelSpec], jobs: Collection[Job]) -> Iterator[str]:
    """Yield a sentence for each folder of sentence-transformers whose pooling no job reads."""
    poolings = [(job.checkpoint, job.settings[POOLING]) for job in jobs if POOLING in job.settings]
    used = {checkpoint for checkpoint, pooling in poolings if pooling.source == OF_FOLDER}
    for model in models:
        if not model.is_folder or model.checkpoint in used:
            continue
        if pooling := stated_pooling(Path(model.checkpoint)):
            yield (
                f"{model.name} says how its tokens make one vector ({pooling}), which is not used: "
                "heads read the encoder as its family's do."
            )


def _unchecked_families(models: Iterable[ModelSpec]) -> Iterator[str]:
    """Yield a sentence for each model of a family that nobody has looked up."""
    for model in models:
        config = family_config(model)
        # One that cannot be loaded is refused right after this.
        if config and is_unchecked(config) and _is_loadable(model):
            yield (
                f"{model.name} is of the family {config['model_type']}, and nobody has checked how "
                "its authors classify a text: a new layer reads the state of its first token, or "
                "of its last one where a trial shows that it sees only what precedes it."
            )


def _is_loadable(model: ModelSpec) -> bool:
    try:
        require_checkpoint(model.checkpoint, model.revision or None, model.trust)
    except ModelError:
        return False
    return True


def _unused_settings(request: Request, jobs: Collection[Job]) -> Iterable[str]:
    """Which values that were asked for no job has."""
    used = {name for job in jobs for name in job.settings}
    return unused_settings(request.overrides, request.options.recipe, used) if jobs else ()


def _long_rows(jobs: Iterable[Job], words: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Where rows of the user's own have more words than are read, a sentence for each length.

    A word is a token at least, so that as many rows lose words; the run counts them all.
    """
    found: dict[str, dict[str, None]] = {}
    for job in jobs:
        most = int(job.settings["max_tokens"].value) if "max_tokens" in job.settings else None
        counts = [words[digest] for digest in job.fingerprints.values() if digest in words]
        if most is not None and (lost := sum(n > most for split in counts for n in split)):
            rows = f"at least {lost:,} of {sum(map(len, counts)):,} rows"
            said = f"{rows} are longer than the {most:,} tokens that are read, and lose words"
            # Seeds say the same again, and so may models: one sentence names all of them.
            found.setdefault(said, {})[job.model] = None
    yield from (f"{said} ({', '.join(models)})." for said, models in found.items())


MOST_LINES = 20
"""How many tasks an error about missing files names, each on a line."""


def _left_out(
    request: Request, recipes: Recipes, source: Data, learned: Collection[str]
) -> dict[str, str]:
    """The tasks that cannot run, with the files that they lack, where these may be skipped.

    DataError where they may not, or no task is left.
    """
    tasks = request.every_task
    needs = _needs(tasks, recipes)
    trained = {find_task(name).trained_on or name for name in needs}
    lacking: dict[str, str] = {}
    for name in needs:
        task = find_task(name)
        needed = list(task.source.splits)
        if not task.trained_on:
            needed = _own_splits(task, request.splits, learned)
        if files := missing_files(task.source, needed, source, alone=len(trained) == 1):
            lacking[name] = f"no {files}"
    # "no dev.tsv" of its own, "glue/mnli has no train.tsv" of what predicts it or is its start.
    left_out = {
        task.name: "; ".join(
            lacking[name] if name == task.name else f"{name} has {lacking[name]}" for name in found
        )
        for task in tasks
        if (found := [name for name in _with_needs([task.name], needs) if name in lacking])
    }
    if lacking and not (
        request.options.skip_missing and len(left_out) < len({task.name for task in tasks})
    ):
        raise DataError(*_refusal(lacking, left_out, tasks, source))
    return left_out


def _needs(tasks: Sequence[Task], recipes: Recipes) -> dict[str, set[str]]:
    """What each task, asked for or needed, needs a job of: one that predicts it, or a start."""
    needs: dict[str, set[str]] = {task.name: set() for task in tasks}
    for task in tasks:
        if task.trained_on:
            needs[task.name].add(task.trained_on)
            needs.setdefault(task.trained_on, set())
    for (_, name), points in recipes.items():
        needs.setdefault(name, set()).update(filter(None, [start_task(points[0])]))
    return needs


def _refusal(
    lacking: Mapping[str, str], left_out: Collection[str], tasks: Sequence[Task], source: Data
) -> Iterator[str]:
    """What a folder lacks, task by task, what it holds, and what to do."""
    asked = {task.name for task in tasks}
    count = f"{len(left_out)} of the {len(asked)} tasks" if len(asked) > 1 else next(iter(asked))
    skip = "; --skip-missing runs the other tasks" if len(left_out) < len(asked) else ""
    assert source.files is not None, "the hub is taken at its word"
    yield f"{source.files} lacks files for {count}; {source.files.advice}{skip}."
    predicting = {task.trained_on for task in tasks}
    start = "; a task starts from it, and --start-from pretrained does without"
    lines = [
        f"{name}: {files}{'' if name in asked | predicting else start}."
        for name, files in lacking.items()
    ]
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES} more."


def _read_parts(
    reader: "_Reader",
    request: Request,
    resolver: "Resolver",
    recipes: Recipes,
    added: Sequence[tuple[ModelSpec, str]],
) -> "Parts":
    """Reads every split that the tasks, and those that they start from, are made of."""
    leading = leading_tasks(request.every_task)
    wanted = {task.name for task in request.every_task}
    every = (*added, *recipes)
    starts = {name for _, name in every} - {task.name for task in leading}
    return Parts(
        reader=reader,
        recipes=recipes,
        weights={model: weights_identity(model) for model in dict.fromkeys(m for m, _ in every)},
        fingerprints={
            **{task.name: reader.fingerprints(task, wanted) for task in leading},
            **{name: reader.start_fingerprints(name) for name in starts},
        },
        techniques=resolver.techniques,
        seeds=request.seeds,
        precision=_precision(request),
        machine=machine_of(request.slots),
    )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What jobs are made of: points of recipes by model and task, fingerprints by task."""

    reader: "_Reader"
    recipes: Recipes
    weights: Mapping[ModelSpec, str]
    fingerprints: Mapping[str, Mapping[str, str]]
    techniques: Sequence[Technique]
    seeds: Sequence[int]
    precision: str
    machine: str

    def trainings(self, models: Sequence[ModelSpec], tasks: Sequence[Task]) -> Iterator[Job]:
        """The jobs of encoders: those that techniques add, then every point of single tasks."""
        for technique in self.techniques:
            yield from technique.jobs(self)
        for model, task in product(models, tasks):
            points = range(len(self.recipes.get((model, task.name), ())))
            for point, seed in product(points, self.seeds):
                yield from self.chain(model, task.name, point, seed)

    def chain(self, model: ModelSpec, task: str, point: int, seed: int) -> list[Job]:
        """A job behind those that it needs: its start by the same point, where it has as many."""
        points = self.recipes[model, task]
        # Of a start that has fewer points than its follower, the last stands for those it lacks.
        recipe = points[min(point, len(points) - 1)]
        if recipe.is_zero_shot:
            return [self.job(model, [task], recipe, 0)]  # which no seed changes
        start = start_task(recipe)
        before = self.chain(model, start, point, seed) if start else []
        job = self.job(model, [task], recipe, seed)
        # A chain ends with the job it was made for, so the last of `before` is the start itself.
        jobs = [*before, replace(job, start_from=before[-1].key) if before else job]
        for technique in self.techniques:
            jobs = technique.chained(self, model, jobs)
        return jobs

    def baselines(self, models: Sequence[ModelSpec], tasks: Sequence[Task]) -> Iterator[Job]:
        """The jobs of baselines; they have no seed, and compute in the 64 bits of scikit-learn."""
        for model, task in product(models, tasks):
            if task.is_trained:
                (recipe,) = resolve_sweep(model, task.name, None, {})
                yield replace(self.job(model, [task.name], recipe, 0), precision="fp64")

    def job(self, model: ModelSpec, tasks: Sequence[str], recipe: ResolvedRecipe, seed: int) -> Job:
        """One training on these tasks, or none by a recipe without."""
        task = tasks[0]
        known, kind = find_task(task), _kind(model, recipe, find_task(task))
        fingerprints = {
            name: digest for each in tasks for name, digest in self.fingerprints[each].items()
        }
        if languages := languages_of(recipe.settings):
            fingerprints |= {f"{each}:train": self.reader.train(each, languages) for each in tasks}
        if recipe.is_zero_shot:
            # Nothing is learned from train, so other rows there must not make it another job.
            fingerprints = {n: f for n, f in fingerprints.items() if not n.endswith(":train")}
        is_cut = any(self.reader.rows[digest].cut for digest in fingerprints.values())
        return Job(
            model=model.name,
            checkpoint=model.checkpoint,
            # Those of encoders were looked up once; a baseline's are its name and version.
            weights=self.weights.get(model) or weights_identity(model),
            task=task,
            task_version=_version(known, fingerprints),
            data=str(self.reader.source),
            fingerprints=fingerprints,
            kind=kind,
            recipe=recipe.name,
            own_recipe=recipe.is_own,
            overridden=recipe.overridden,
            is_sweep=recipe.is_sweep,
            off=recipe.off,
            settings={**recipe.settings, **self._timed(known)},
            start=recipe.start,
            stage=model.stage,
            seed=seed,
            precision=self.precision,
            # Where the limit takes nothing away, the job is the one without a limit.
            limit=self.reader.limit_of(known) if is_cut else None,
            trust=model.trust,
            plugins=plugins_of(name.rpartition(":")[0] for name in fingerprints),
            definition=find_task(task).definition,
            documents=self._documents(fingerprints) if "context" in recipe.settings else {},
        )

    def _timed(self, task: Task) -> Mapping[str, Setting]:
        """Where a model is timed; on another machine it is another job."""
        if not isinstance(task, TimedTask):
            return {}
        return {MACHINE: Setting(value=self.machine, source="the machine of the run")}

    def _documents(self, splits: Iterable[str]) -> dict[str, str]:
        """The digests of what the sentences of tagging tasks stand in, by "task:split"."""
        known = self.reader.documents
        found, source = {n: known[n] for n in splits if n in known}, self.reader.source
        if lacking := [name for name, digest in found.items() if not digest]:
            task, _, split = lacking[0].rpartition(":")
            raise DataError(
                f"{task} {split} ({source}) does not say where its documents begin, as the "
                "official files of CoNLL-2003 do by -DOCSTART-: context=document needs that, so "
                "give such files with --data, or --set context=sentence."
            )
        return found


def resolve_precision(precision: str, *, gpu: bool) -> str:
    """What "auto" means on this machine: "bf16" where it computes it natively, else "fp32".

    Raises BenchError for what is no number format, and for tf32 without a GPU.
    """
    if precision not in ("auto", "fp32", "tf32", "bf16"):
        raise BenchError(f"--precision must be auto, fp32, tf32 or bf16, got {precision!r}.")
    if precision == "tf32" and not gpu:
        raise BenchError(
            "tf32 is a number format of GPUs, and there is none here: use --precision fp32."
        )
    if precision != "auto":
        return precision
    return "bf16" if gpu or cpu_has_bf16() else "fp32"


def _kind(model: ModelSpec, recipe: ResolvedRecipe, task: Task) -> Kind:
    """What makes a job; where nobody trains, what is not trained is a model like all others."""
    if model.is_baseline:
        return "baseline"
    return "zero-shot" if recipe.is_zero_shot and task.is_trained else "model"


def _precision(request: Request) -> str:
    """The number format of the jobs of encoders."""
    gpu, precision = request.slots[0].is_gpu, str(request.options.precision)
    # GPUs before Ampere only emulate bf16.
    if precision == "auto" and gpu and not have_bf16(request.slots):
        precision = "fp32"
    return resolve_precision(precision, gpu=gpu)


def _find_encoders(request: Request) -> list[ModelSpec]:
    """The models with an encoder, with another checkpoint's weights where that was asked for.

    ModelError where the hub's list of a model's files says that it cannot be loaded.
    """
    encoders = [model for model in request.models if not model.is_baseline]
    if isinstance(request.start_from, ModelSpec):
        encoders = [_with_weights(model, request.start_from) for model in encoders]
    for model in encoders:
        require_listed(model)
    return encoders


def _check_baselines(asked: Sequence[ModelSpec], tasks: Sequence[Task]) -> None:
    """Raises BenchError where a baseline was asked for that has nothing to learn from."""
    untrained = [task.name for task in tasks if not task.is_trained]
    if asked and untrained:
        raise BenchError(
            f"{untrained[0]} has no training rows, from which {asked[0].name} could learn: name a "
            "language model."
        )


def _learned_tasks(
    tasks: Sequence[Task], recipes: Recipes, baselines: Collection[ModelSpec]
) -> set[str]:
    """The tasks whose training rows are needed."""
    found = {task for (_, task), points in recipes.items() if not points[0].is_zero_shot}
    return found | {task.name for task in tasks if task.is_trained and baselines}


@dataclass(frozen=True, kw_only=True)
class Resolver:
    """Resolves the recipe of models, with what is set otherwise, as techniques have it."""

    models: Sequence[ModelSpec]
    recipe: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    techniques: Sequence[Technique] = ()
    start_from: str | Start | None = None

    @classmethod
    def of(cls, request: Request, models: Sequence[ModelSpec]) -> Self:
        """That of a request; the models that start from a checkpoint have its weights."""
        techniques = techniques_of(request)
        start: str | Start | ModelSpec | None = request.start_from
        for technique in techniques:
            start = start if isinstance(start, ModelSpec) else technique.start(start)
        return cls(
            models=models,
            recipe=request.options.recipe,
            overrides=request.overrides,
            techniques=techniques,
            start_from=None if isinstance(start, ModelSpec) else start,
        )

    def single(self, tasks: Sequence[Task]) -> Recipes:
        """The points of every pair's recipe, and of every task's that one of them starts from.

        A point without training stands behind all others.
        What is wrong with any of them is reported at once, each line once.
        """
        resolved: dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]] = {}
        problems: dict[str, None] = {}
        waiting = [(model, task) for model in self.models for task in tasks]
        for model, task in waiting:
            if (model, task.name) in resolved or not is_readable(task, model):
                continue
            try:
                found = tuple(self._points(model, task))
            except BenchError as error:
                problems |= dict.fromkeys(str(error).splitlines())
                continue
            resolved[model, task.name] = found
            # `waiting` grows while it is gone through: the start may start from another task.
            if start := start_task(found[0]):
                waiting.append((model, find_task(start)))
        problems |= dict.fromkeys(_circles(resolved))
        if not (resolved or problems):
            problems |= dict.fromkeys(unreadable(self.models, tasks))
        if problems:
            raise BenchError(*problems)
        return resolved

    def _points(self, model: ModelSpec, task: Task) -> Iterator[ResolvedRecipe]:
        needed = [technique.needed for technique in self.techniques if technique.needed]
        # Of --shots 8,32 there are two sets of values, and a point with each. Most techniques have
        # one set, which is empty; where one has none, nothing is trained.
        for several in product(*(technique.values(task) for technique in self.techniques)):
            values = {**self.overrides, **ChainMap(*map(dict, several))}
            for point in resolve_sweep(model, task.name, self.recipe, values, techniques=needed):
                start = self.start_from
                yield with_start(point, model, task, recipe=self.recipe, start_from=start)
        if isinstance(task, TimedTask):
            yield from timed_recipes(task, model, self.recipe, self.overrides)
        elif any(technique.asks_untrained(task) for technique in self.techniques):
            yield zero_shot_recipe(task.name, model)


def unreadable(models: Iterable[ModelSpec], tasks: Collection[Task]) -> Iterator[str]:
    """A sentence about each length that an encoder does not read."""
    for model, task in product(models, tasks):
        if not is_readable(task, model):
            use = "timed" if isinstance(task, TimedTask) else "trained"
            yield (
                f"{model.name} reads at most {reach(model):,} tokens, and the documents of "
                f"{task.name} have {task.longest:,}: it is not {use} on them."
            )


def _circles(recipes: Recipes) -> Iterator[str]:
    """A sentence about each task that starts, in the end, from itself."""
    starts = {pair: start_task(points[0]) for pair, points in recipes.items()}
    for model, task in recipes:
        names = [task]
        # Follow the starts to the end, or to a task that was met before. A circle that does not
        # come back to this task is told of by those that are in it.
        while (start := starts.get((model, names[-1]))) and start not in names:
            names.append(start)
        if start == task:
            yield (
                f"{' starts from '.join([*names, task])}: a task cannot start from itself; take a "
                "start_from out of the recipe."
            )


def _with_weights(model: ModelSpec, start: ModelSpec) -> ModelSpec:
    """The model with the weights of another checkpoint, trained by the recipe of its own."""
    if model.family and start.family and model.family != start.family:
        raise ModelError(
            f"{model.name} cannot start from {start.name}, which is of the family {start.family}: "
            f"expected a checkpoint of {model.family}."
        )
    return replace(
        start,
        name=f"{model.name} from {start.name}",
        family=start.family or model.family,
        recipe=model.recipe,
        start=Start(kind="checkpoint", name=start.name, model=model.name),
    )


class _Reader:
    """Reads splits of one source for their digests; `rows` counts what it has read.

    `documents` are the digests of what the sentences of tagging tasks stand in, by "task:split",
    and `words` how many each row of the user's own has, by fingerprint, where it may be cut.
    """

    def __init__(self, source: Data, request: Request, learned: Collection[str]) -> None:
        self.source, self._limit = source, request.options.limit
        self._timed = TIMED_DOCUMENTS["cuda" if request.slots[0].is_gpu else "cpu"]
        self._learned = learned
        self._splits = request.splits
        self.rows: dict[str, RowCounts] = {}
        self.documents: dict[str, str] = {}
        self.words: dict[str, Sequence[int]] = {}
        self._trained: dict[tuple[str, str], str] = {}

    def limit_of(self, task: Task) -> int | None:
        """How many rows of a split are read, None for all."""
        return self._limit or (self._timed if isinstance(task, TimedTask) else None)

    def fingerprints(self, task: Task, wanted: Collection[str] = ()) -> dict[str, str]:
        """The digests of the train split, if it is needed, and of all that the job predicts.

        A follower's splits must be there where it is `wanted` by name.
        """
        used = [(task, split) for split in _own_splits(task, self._splits, self._learned)]
        if "test" in self._splits:
            used += [(task, s) for s in task.test_splits if has_split(task, s, self.source)]
        for follower in TASKS.values():
            if follower.trained_on == task.name:
                required = follower.name in wanted
                used += [
                    (follower, split)
                    for split in follower.source.splits
                    if required or has_split(follower, split, self.source)
                ]
        return {f"{t.name}:{split}": self._fingerprint(t, split) for t, split in used}

    def start_fingerprints(self, name: str) -> dict[str, str]:
        """Those of a task that nobody asked for, and others start from."""
        try:
            return self.fingerprints(find_task(name))
        except DataError as error:
            raise DataError(
                f"{error} It is needed because a task starts from {name}; --start-from pretrained "
                "does without."
            ) from error

    def train(self, task: str, languages: str) -> str:
        """The digest of the training rows in these languages."""
        if (task, languages) not in self._trained:
            rows = read_train(find_task(task), languages, self.source, self._limit)
            self._trained[task, languages] = self._counted(find_task(task), "train", rows)
        return self._trained[task, languages]

    def _fingerprint(self, task: Task, split: str) -> str:
        return self._counted(task, split, read(task, split, self.source, self.limit_of(task)))

    def _counted(self, task: Task, split: str, rows: SplitRows) -> str:
        self.rows[rows.fingerprint] = RowCounts(
            len(rows.examples), rows.left_out, rows.cut, rows.odd
        )
        if task.definition:
            self.words[rows.fingerprint] = [example.count_words() for example in rows.examples]
        if task.head == "tag":
            self.documents[f"{task.name}:{split}"] = document_digest(rows.examples)
        return rows.fingerprint


def _own_splits(task: Task, kinds: Collection[str], learned: Collection[str]) -> list[str]:
    """The splits that have to be there: train where it is learned, and those of dev."""
    dev = task.dev_splits if "dev" in kinds else ()
    return [*(("train",) if task.name in learned else ()), *dev]


def _version(task: Task, splits: Iterable[str]) -> int:
    """The task's version, raised by every later version of the tasks that its model predicts.

    Versions only go up, so the sum never comes back to what it was.
    """
    followers = {name.rpartition(":")[0] for name in splits} - {task.name}
    return task.version + sum(find_task(name).version - 1 for name in followers)
