"""Planning, which turns a request into jobs: one per model, task, hyperparameter setting and seed.

Planning reads the data, because each job contains the digests of the examples that it uses.
"""

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Self

from benchharness.driver.few_rows import FEW_ROWS, FewRows, RowCounts, few_steps
from benchharness.driver.request import Request, leading_tasks
from benchharness.driver.technique import Technique, techniques_of
from benchharness.engines.slots import have_bf16, machine_of
from benchharness.errors import BenchError, DataError, ModelError
from benchharness.leaderboard.job import MACHINE, Job, Kind, Setting, Start
from benchharness.machine import cpu_has_bf16
from benchharness.models import BASELINES, ModelSpec, weights_identity
from benchharness.models.families import CLASSIFIED, is_unchecked
from benchharness.models.folder import stated_pooling
from benchharness.models.weights import (
    family_config,
    reach,
    require_checkpoint,
    require_listed,
)
from benchharness.plugins import plugins_of
from benchharness.recipes import ResolvedRecipe, resolve_sweep
from benchharness.recipes.resolve import POOLING, start_task, unused_settings, with_start
from benchharness.recipes.zero_shot import (
    OF_FOLDER,
    is_readable,
    timed_recipes,
    zero_shot_recipe,
)
from benchharness.splits import languages_of
from benchharness.tasks.read import SplitRows, document_digest, has_split, read, read_train
from benchharness.tasks.sources import Data, missing_files, parse_data
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import Task

Recipes = Mapping[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]]
"""Resolved recipes, keyed by model and task name. A tuple has one recipe, or one per combination of
values in a hyperparameter sweep."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a request: its jobs, the sizes of their splits, and the tasks that are skipped.

    Attributes:
        jobs: The jobs. A job comes after the jobs whose models it needs, and baselines come last.
        rows: The numbers of examples in each split, keyed by the split's fingerprint (the digest of
            its examples), so that a split shared by several jobs is counted once.
        left_out: Reasons why tasks are skipped, such as "no dev.tsv", keyed by task.
        notes: Messages for the user, for example about hyperparameters that no job uses.
        grid: All planned jobs, if `jobs` contains only some of them, as in successive halving;
            otherwise empty.
    """

    jobs: tuple[Job, ...]
    rows: Mapping[str, RowCounts]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    grid: tuple[Job, ...] = ()

    @property
    def used_rows(self) -> dict[str, int]:
        """Number of examples of each split that are used, keyed by the split's fingerprint."""
        return {digest: counts.used for digest, counts in self.rows.items()}

    def part(self, keys: Iterable[str]) -> "Plan":
        """Return a plan with only the jobs that have these keys, and all jobs that they need."""
        wanted = with_starts(keys, self.jobs)
        jobs = tuple(job for job in self.jobs if job.key in wanted)
        return replace(self, jobs=jobs, grid=self.grid or self.jobs)

    def left_out_rows(self) -> dict[str, int]:
        """Return how many examples a rule of the benchmark leaves out, keyed by "task:split".

        Only splits with such examples are included. Tasks on the user's own data are not included,
        because their excluded rows are reported when the data are first read.
        """
        jobs = (job for job in self.jobs if job.definition is None)
        counts = self._counts(jobs)
        return {name: found.left_out for name, found in counts.items() if found.left_out}

    def odd_rows(self) -> dict[str, Mapping[str, int]]:
        """Return the numbers of examples with known irregularities of the released data.

        The result has the form `{"task:split": {description: number}}`.
        """
        return {name: found.odd for name, found in self._counts(self.jobs).items()}

    def _counts(self, jobs: Iterable[Job]) -> dict[str, RowCounts]:
        splits = {name: digest for job in jobs for name, digest in job.fingerprints.items()}
        return {name: self.rows[digest] for name, digest in splits.items() if digest in self.rows}


def plan(request: Request) -> Plan:
    """Plan the jobs of a request: one per model, task, hyperparameter setting and seed.

    Some tasks, such as AX, have no training examples and are predicted by the model of another
    task, in this case MNLI. They have no job of their own; their splits are part of the other
    task's job whenever the data contain them. So the job for MNLI is the same whether only MNLI or
    all of GLUE is requested. A job that starts from the model of another job, or is distilled from
    it, comes after that job, which is added if it was not requested. Baselines come last.

    Raises:
        BenchError: Options contradict each other, or hyperparameters are wrong; the error has a
            line for each wrong hyperparameter. It is raised before any data are read, except if a
            student cannot learn from its teacher.
        DataError: A required split is malformed, or files are missing; the error has a line for
            each task that lacks files, up to MOST_LINES tasks.
        ModelError: A model cannot be loaded.
    """
    for technique in techniques_of(request):
        technique.check(request)

    # ---- Find the requested encoders and baselines.
    encoders = _find_encoders(request)
    asked = [model for model in request.models if model.is_baseline]
    below = BASELINES if request.options.baselines else ()
    baselines = tuple(dict.fromkeys((*below, *asked)))

    # ---- Find the tasks that can run. The data of all tasks that their recipes need must exist.
    recipes = Resolver.of(request, encoders).single(leading_tasks(request.single_tasks))
    source, leading = parse_data(request.data), leading_tasks(request.every_task)
    _check_baselines(asked, leading)
    learned = _learned_tasks(leading, recipes, baselines)
    learned |= {task.name for task in leading_tasks(request.multi_task)}
    left_out = _left_out(request, recipes, source, learned)
    request = request.without(left_out)

    # ---- Resolve the recipes of these tasks, and of the jobs that techniques add.
    # The recipe for the user's own data depends on the number of rows, which is therefore read.
    reader = _Reader(source, request, learned)
    few_rows = FewRows.of(request, reader.train_rows)
    resolver = Resolver.of(request, encoders, few_rows)
    # Some tasks may be in the plan only because a skipped task starts from their models. These
    # tasks are dropped by resolving the recipes again without the skipped tasks.
    recipes = resolver.single(leading_tasks(request.single_tasks))
    added = [pair for each in resolver.techniques for pair in each.resolve(resolver, recipes)]
    learned.update(task for _, task in added)

    # ---- Read the data, and build the jobs.
    parts = _read_parts(reader, request, resolver, recipes, added)
    for technique in parts.techniques:
        technique.check_rows(parts)
    trained = parts.trainings(encoders, leading_tasks(request.single_tasks))
    jobs: dict[str, Job] = {}
    for job in (*trained, *parts.baselines(baselines, leading_tasks(request.every_task))):
        # If three tasks start from the MNLI job, that job is yielded three times. Keep only its
        # first position, which is before all three tasks.
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
            *(few_rows.notes() if few_rows else ()),
            *few_steps(request, jobs.values(), reader.rows),
            *unreadable(encoders, leading_tasks(request.single_tasks)),
            *(n for each in parts.techniques for n in each.notes(encoders, jobs.values())),
        ),
    )


def with_starts(keys: Iterable[str], jobs: Iterable[Job]) -> set[str]:
    """Return the keys of some jobs and of all jobs that they need, directly or indirectly.

    Args:
        keys: The keys of some jobs.
        jobs: All jobs of the plan.
    """
    return {*_with_needs([*keys], {job.key: job.needs for job in jobs})}


def _with_needs(found: list[str], needs: Mapping[str, Collection[str]]) -> list[str]:
    """Append to a list everything that its members need, directly or indirectly; return the list.

    `needs` maps each member to what it needs directly.
    """
    known = {*found}
    for each in found:
        # `found` grows during the iteration, so indirect needs are added too.
        new = sorted({*needs[each]} - known)
        found += new
        known.update(new)
    return found


def _unused_poolings(models: Iterable[ModelSpec], jobs: Collection[Job]) -> Iterator[str]:
    """Yield a message for each sentence-transformers model whose own pooling no job uses."""
    poolings = [(job.checkpoint, job.settings[POOLING]) for job in jobs if POOLING in job.settings]
    used = {checkpoint for checkpoint, pooling in poolings if pooling.source == OF_FOLDER}
    for model in models:
        if not model.is_folder or model.checkpoint in used:
            continue
        if pooling := stated_pooling(Path(model.checkpoint)):
            yield (
                f"{model.name} specifies how token states are pooled into one vector ({pooling}), "
                "but no job uses this: heads read the encoder in the standard way of its family."
            )


def _unchecked_families(models: Iterable[ModelSpec]) -> Iterator[str]:
    """Yield a message for each model of a family whose original classification head is unknown."""
    for model in models:
        config = family_config(model)
        if not config or not is_unchecked(config) or config["model_type"] in CLASSIFIED:
            continue
        # No message is needed for a model that cannot be loaded, because it raises an error later.
        if _is_loadable(model):
            yield (
                f"{model.name} belongs to the family {config['model_type']}, and no one checked "
                "how this family is read. A new layer reads the state of the first token, or of "
                "the last token if a test shows that tokens attend only to earlier tokens."
            )


def _is_loadable(model: ModelSpec) -> bool:
    try:
        require_checkpoint(model.checkpoint, model.revision or None, model.trust)
    except ModelError:
        return False
    return True


def _unused_settings(request: Request, jobs: Collection[Job]) -> Iterable[str]:
    """Yield a message for each requested hyperparameter that no job uses."""
    used = {name for job in jobs for name in job.settings}
    return unused_settings(request.overrides, request.options.recipe, used) if jobs else ()


def _long_rows(jobs: Iterable[Job], words: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield messages about examples in the user's own data that are too long for a model.

    Only examples with more words than the model's maximum number of tokens are counted. They are
    certainly truncated, because each word has at least one token.
    """
    found: dict[str, dict[str, None]] = {}
    for job in jobs:
        most = int(job.settings["max_tokens"].value) if "max_tokens" in job.settings else None
        counts = [words[digest] for digest in job.fingerprints.values() if digest in words]
        if most is not None and (lost := sum(n > most for split in counts for n in split)):
            rows = f"at least {lost:,} of {sum(map(len, counts)):,} rows"
            said = f"{rows} are longer than the maximum of {most:,} tokens and are truncated"
            # Jobs that differ in the seed or the model may give the same message. It is yielded
            # once, with the names of all these models.
            found.setdefault(said, {})[job.model] = None
    yield from (f"{said} ({', '.join(models)})." for said, models in found.items())


MOST_LINES = 20
"""Largest number of tasks that an error about missing files lists."""


def _left_out(
    request: Request, recipes: Recipes, source: Data, learned: Collection[str]
) -> dict[str, str]:
    """Return the reasons why tasks with missing files must be skipped, keyed by task.

    Raises:
        DataError: Files are missing, and either `skip_missing` is not set or no task would remain.
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
    # A reason is like "no dev.tsv" if the task itself lacks a file, and like "glue/mnli has no
    # train.tsv" if a task that it needs lacks a file.
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
    """Return the tasks that each task needs, keyed by task.

    A task may need the task whose model predicts it, and the task whose model it starts from. The
    keys are the requested tasks and all tasks that they need.
    """
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
    """Yield the lines of an error about missing files: a summary, and then a line per task."""
    asked = {task.name for task in tasks}
    count = f"{len(left_out)} of the {len(asked)} tasks" if len(asked) > 1 else next(iter(asked))
    skip = "; pass --skip-missing to run the other tasks" if len(left_out) < len(asked) else ""
    assert source.files is not None, "only tasks in a folder can lack files here"
    yield f"{source.files} lacks files for {count}; {source.files.advice}{skip}."
    predicting = {task.trained_on for task in tasks}
    start = "; a task starts from this one, unless you pass --start-from pretrained"
    lines = [
        f"{name}: {files}{'' if name in asked | predicting else start}."
        for name, files in lacking.items()
    ]
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES} more tasks."


def _read_parts(
    reader: "_Reader",
    request: Request,
    resolver: "Resolver",
    recipes: Recipes,
    added: Sequence[tuple[ModelSpec, str]],
) -> "Parts":
    """Read the splits of all tasks, and return the builder of jobs."""
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
    """Builder of jobs from resolved recipes, weights, splits and seeds.

    Attributes:
        reader: The reader of the splits, which has also recorded their sizes.
        recipes: The resolved recipes, keyed by model and task.
        weights: A string that identifies the weights of each model (see `weights_identity`).
        fingerprints: The digests of the splits that the job of each task uses, in the form
            `{task: {"task:split": digest}}`.
        techniques: The training techniques of the request.
        seeds: Seeds of the jobs.
        precision: The number format of encoders, such as "bf16".
        machine: A description of the machine, for tasks that measure time.
    """

    reader: "_Reader"
    recipes: Recipes
    weights: Mapping[ModelSpec, str]
    fingerprints: Mapping[str, Mapping[str, str]]
    techniques: Sequence[Technique]
    seeds: Sequence[int]
    precision: str
    machine: str

    def trainings(self, models: Sequence[ModelSpec], tasks: Sequence[Task]) -> Iterator[Job]:
        """Yield the jobs of encoders: first those that techniques add, then those of each task.

        A task has one job per model, hyperparameter setting and seed. A job comes after the jobs
        that it needs. A job that several others need is yielded several times.
        """
        for technique in self.techniques:
            yield from technique.jobs(self)
        for model, task in product(models, tasks):
            points = range(len(self.recipes.get((model, task.name), ())))
            for point, seed in product(points, self.seeds):
                yield from self.chain(model, task.name, point, seed)

    def chain(self, model: ModelSpec, task: str, point: int, seed: int) -> list[Job]:
        """Return the job of a model on a task, preceded by the jobs that it needs.

        A job without training needs no other job, and its seed is always 0.

        Args:
            model: Model to train.
            task: The name of the task.
            point: The index of the hyperparameter setting in the sweep.
            seed: Seed of the job.
        """
        points = self.recipes[model, task]
        # `point` may be too large, because a task that starts from the model of this task may have
        # more hyperparameter settings. Then the last setting of this task is used.
        recipe = points[min(point, len(points) - 1)]
        if recipe.is_zero_shot:
            return [self.job(model, [task], recipe, 0)]  # without training, the seed has no effect
        start = start_task(recipe)
        before = self.chain(model, start, point, seed) if start else []
        job = self.job(model, [task], recipe, seed)
        # The last job in `before` is the one that this job starts from.
        jobs = [*before, replace(job, start_from=before[-1].key) if before else job]
        for technique in self.techniques:
            jobs = technique.chained(self, model, jobs)
        return jobs

    def baselines(self, models: Sequence[ModelSpec], tasks: Sequence[Task]) -> Iterator[Job]:
        """Yield the jobs of baselines on all tasks that have training examples.

        They have seed 0 and the number format fp64, which scikit-learn uses.
        """
        for model, task in product(models, tasks):
            if task.is_trained:
                (recipe,) = resolve_sweep(model, task.name, None, {})
                yield replace(self.job(model, [task.name], recipe, 0), precision="fp64")

    def job(self, model: ModelSpec, tasks: Sequence[str], recipe: ResolvedRecipe, seed: int) -> Job:
        """Build the job of a model on one task, or on several tasks that are trained together.

        Args:
            model: Model to train.
            tasks: The name of the task, or the names of the tasks that are trained together.
            recipe: The resolved recipe, which contains the hyperparameters.
            seed: Seed of the job.
        """
        task = tasks[0]
        known, kind = find_task(task), _kind(model, recipe, find_task(task))
        fingerprints = {
            name: digest for each in tasks for name, digest in self.fingerprints[each].items()
        }
        if languages := languages_of(recipe.settings):
            fingerprints |= {f"{each}:train": self.reader.train(each, languages) for each in tasks}
        if recipe.is_zero_shot:
            # The train split is not used, so its examples must not change the key of the job.
            fingerprints = {n: f for n, f in fingerprints.items() if not n.endswith(":train")}
        is_cut = any(self.reader.rows[digest].cut for digest in fingerprints.values())
        return Job(
            model=model.name,
            checkpoint=model.checkpoint,
            # `self.weights` has the identities of encoders only. A baseline has no weights and is
            # identified by its name and version.
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
            # If the limit excludes no examples, the job must be equal to the one without a limit.
            limit=self.reader.limit_of(known) if is_cut else None,
            trust=model.trust,
            plugins=plugins_of((name.rpartition(":")[0] for name in fingerprints), recipe.settings),
            definition=find_task(task).definition,
            documents=self._documents(fingerprints) if "context" in recipe.settings else {},
        )

    def _timed(self, task: Task) -> Mapping[str, Setting]:
        """Return the machine as a setting of the job if the task measures time.

        The setting is part of the job's key, so a measurement on another machine is another job.
        """
        if not task.is_measured:
            return {}
        return {MACHINE: Setting(value=self.machine, source="the machine of the run")}

    def _documents(self, splits: Iterable[str]) -> dict[str, str]:
        """Return digests of the grouping of sentences into documents, keyed by "task:split".

        Raises:
            DataError: The data of a split do not show where documents begin.
        """
        known = self.reader.documents
        found, source = {n: known[n] for n in splits if n in known}, self.reader.source
        if lacking := [name for name, digest in found.items() if not digest]:
            task, _, split = lacking[0].rpartition(":")
            raise DataError(
                f"{task} {split} ({source}) does not show where documents begin, which "
                "context=document needs: use files with -DOCSTART- lines, such as the official "
                "files of CoNLL-2003, with --data, or pass --set context=sentence."
            )
        return found


def resolve_precision(precision: str, *, gpu: bool) -> str:
    """Return the number format for the matrix products of encoders.

    Args:
        precision: The value of `--precision`: "fp32", "tf32", "bf16" or "auto". With "auto", the
            result is "bf16" on a GPU and on a CPU that supports bf16 natively, otherwise "fp32".
        gpu: Whether the jobs run on a GPU.

    Raises:
        BenchError: The name is not a known number format, or tf32 is requested without a GPU.
    """
    if precision not in ("auto", "fp32", "tf32", "bf16"):
        raise BenchError(f"--precision must be auto, fp32, tf32 or bf16, got {precision!r}.")
    if precision == "tf32" and not gpu:
        raise BenchError(
            "--precision tf32 needs a GPU, but these jobs do not run on one: use --precision fp32."
        )
    if precision != "auto":
        return precision
    return "bf16" if gpu or cpu_has_bf16() else "fp32"


def _kind(model: ModelSpec, recipe: ResolvedRecipe, task: Task) -> Kind:
    """Return the kind of a job: "model", "baseline" or "zero-shot".

    A model that is not trained has the kind "zero-shot" only if the task has training examples.
    """
    if model.is_baseline:
        return "baseline"
    return "zero-shot" if recipe.is_zero_shot and task.is_trained else "model"


def _precision(request: Request) -> str:
    """Return the number format for the jobs of encoders."""
    gpu, precision = request.slots[0].is_gpu, str(request.options.precision)
    # GPUs before Ampere only emulate bf16.
    if precision == "auto" and gpu and not have_bf16(request.slots):
        precision = "fp32"
    return resolve_precision(precision, gpu=gpu)


def _find_encoders(request: Request) -> list[ModelSpec]:
    """Return the requested models that are not baselines.

    If --start-from names a checkpoint, these models have its weights.

    Raises:
        ModelError: The list of a model's files on the hub shows that it cannot be loaded.
    """
    encoders = [model for model in request.models if not model.is_baseline]
    if isinstance(request.start_from, ModelSpec):
        encoders = [_with_weights(model, request.start_from) for model in encoders]
    for model in encoders:
        require_listed(model)
    return encoders


def _check_baselines(asked: Sequence[ModelSpec], tasks: Sequence[Task]) -> None:
    """Raise BenchError if a baseline was requested for a task without training examples."""
    untrained = [task.name for task in tasks if not task.is_trained]
    if asked and untrained:
        raise BenchError(
            f"{untrained[0]} has no training rows, so {asked[0].name} cannot learn it: use a "
            "language model instead."
        )


def _learned_tasks(
    tasks: Sequence[Task], recipes: Recipes, baselines: Collection[ModelSpec]
) -> set[str]:
    """Return the names of the tasks on which some model or baseline is trained."""
    found = {task for (_, task), points in recipes.items() if not points[0].is_zero_shot}
    return found | {task.name for task in tasks if task.is_trained and baselines}


@dataclass(frozen=True, kw_only=True)
class Resolver:
    """Resolver of the hyperparameters with which models are trained on tasks.

    Attributes:
        models: Models to train.
        recipe: The name or file of the recipe that the user gave, if any.
        overrides: Hyperparameters that the user gave, keyed by name. They replace those of the
            recipe.
        techniques: Training techniques, which may add hyperparameters.
        start_from: The initial weights of the models: "pretrained", the name of a task on which the
            model is trained first, or a `Start`; None if the recipe determines them.
        few_rows: Choice of another recipe for custom data with few rows; None to use `recipe` for
            all tasks.
    """

    models: Sequence[ModelSpec]
    recipe: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    techniques: Sequence[Technique] = ()
    start_from: str | Start | None = None
    few_rows: FewRows | None = None

    @classmethod
    def of(
        cls, request: Request, models: Sequence[ModelSpec], few_rows: FewRows | None = None
    ) -> Self:
        """Create a resolver for these models with the options of a request."""
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
            few_rows=few_rows,
        )

    def single(self, tasks: Sequence[Task]) -> Recipes:
        """Resolve the recipes of all models on these tasks.

        If the training on a task starts from the model of another task, the recipes of that other
        task are also resolved.

        Returns:
            The recipes, keyed by model and task, as tuples of one recipe per hyperparameter
            setting. If a model is also scored without training, the last recipe of the tuple is
            for this. If the task measures speed, the last recipes are for the measurement.

        Raises:
            BenchError: Recipes are wrong, or the documents of all tasks are too long for the
                models; the error has a line for each problem.
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
            # This task may start from the model of another task. The loop also reaches that task,
            # because `waiting` may grow during the iteration.
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
        # Each technique yields one or more sets of extra values, and there is one recipe per
        # combination of sets. For example, --shots 8,32 yields two sets, and most techniques yield
        # one empty set. If a technique yields no set, nothing is trained.
        for several in product(*(technique.values(task) for technique in self.techniques)):
            values = {**self.overrides, **ChainMap(*map(dict, several))}
            recipe, start = self.recipe, self.start_from
            points = resolve_sweep(model, task.name, recipe, values, techniques=needed)
            if self.few_rows and self.few_rows.are_few(task, points):
                with suppress(BenchError):  # values of the user may not fit the other recipe
                    few = resolve_sweep(model, task.name, FEW_ROWS, values, techniques=needed)
                    self.few_rows.record(model, task, points)
                    recipe, points = FEW_ROWS, few
            for point in points:
                yield with_start(point, model, task, recipe=recipe, start_from=start)
        if task.is_measured:
            yield from timed_recipes(task, model, self.recipe, self.overrides)
        elif any(technique.asks_untrained(task) for technique in self.techniques):
            yield zero_shot_recipe(task.name, model)


def unreadable(models: Iterable[ModelSpec], tasks: Collection[Task]) -> Iterator[str]:
    """Yield a message for each model and task whose documents are too long for the model."""
    for model, task in product(models, tasks):
        if not is_readable(task, model):
            use = "timed" if task.is_measured else "trained"
            yield (
                f"{model.name} reads at most {reach(model):,} tokens, but the documents of "
                f"{task.name} have {task.longest:,}: the model is not {use} on this task."
            )


def _circles(recipes: Recipes) -> Iterator[str]:
    """Yield a message for each task that starts from itself, directly or indirectly."""
    starts = {pair: start_task(points[0]) for pair, points in recipes.items()}
    for model, task in recipes:
        names = [task]
        # Go from each task to the task that it starts from, until there is none or a task occurs
        # twice. A circle that does not include the first task is reported when one of the tasks in
        # the circle is checked.
        while (start := starts.get((model, names[-1]))) and start not in names:
            names.append(start)
        if start == task:
            yield (
                f"{task} starts from {', which starts from '.join([*names[1:], task])}: a task "
                "cannot start from itself, so remove one of these start_from values from the "
                "recipe."
            )


def _with_weights(model: ModelSpec, start: ModelSpec) -> ModelSpec:
    """Return the model with the weights of the checkpoint `start` and its own recipe.

    Raises:
        ModelError: The checkpoint belongs to another model family.
    """
    if model.family and start.family and model.family != start.family:
        raise ModelError(
            f"{model.name} cannot start from {start.name}, which belongs to the family "
            f"{start.family}: expected a checkpoint of the family {model.family}."
        )
    return replace(
        start,
        name=f"{model.name} from {start.name}",
        family=start.family or model.family,
        recipe=model.recipe,
        start=Start(kind="checkpoint", name=start.name, model=model.name),
    )


class _Reader:
    """Reader of the splits of one data source, which also records the sizes of the splits.

    Attributes:
        rows: The numbers of examples, keyed by the split's fingerprint.
        documents: For each split of a tagging task, a digest of how its sentences are grouped into
            documents; keyed by "task:split".
        words: The number of words of each example in the user's own data, keyed by fingerprint.
    """

    def __init__(self, source: Data, request: Request, learned: Collection[str]) -> None:
        self.source, self._limit = source, request.options.limit
        self._is_gpu = request.slots[0].is_gpu
        self._learned = learned
        self._splits = request.splits
        self.rows: dict[str, RowCounts] = {}
        self.documents: dict[str, str] = {}
        self.words: dict[str, Sequence[int]] = {}
        self._trained: dict[tuple[str, str], str] = {}
        self._known: dict[tuple[str, str], str] = {}

    def limit_of(self, task: Task) -> int | None:
        """Return the largest number of examples to read per split; None for all."""
        return self._limit or task.usual_limit(is_gpu=self._is_gpu)

    def fingerprints(self, task: Task, wanted: Collection[str] = ()) -> dict[str, str]:
        """Read the splits that the job of a task uses; return their digests, keyed by "task:split".

        The train split is included only if it is needed. The splits of other tasks that this task's
        model predicts are included if they exist; those of tasks in `wanted` must exist.
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
        """Return the digests of a task that is trained only because another task starts from it.

        This is like `fingerprints`, but if data are missing, the error explains why they are
        needed.
        """
        try:
            return self.fingerprints(find_task(name))
        except DataError as error:
            raise DataError(
                f"{error} These data are needed because a task starts from {name}, unless you pass "
                "--start-from pretrained."
            ) from error

    def train(self, task: str, languages: str) -> str:
        """Return the digest of the training examples in these languages."""
        if (task, languages) not in self._trained:
            rows = read_train(find_task(task), languages, self.source, self._limit)
            self._trained[task, languages] = self._counted(find_task(task), "train", rows)
        return self._trained[task, languages]

    def train_rows(self, task: Task) -> RowCounts:
        """Return the numbers of training examples of a task."""
        return self.rows[self._fingerprint(task, "train")]

    def _fingerprint(self, task: Task, split: str) -> str:
        if (task.name, split) not in self._known:
            found = read(task, split, self.source, self.limit_of(task))
            self._known[task.name, split] = self._counted(task, split, found)
        return self._known[task.name, split]

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
    """Return the task's own splits that must exist: train if it is needed, and dev splits."""
    dev = task.dev_splits if "dev" in kinds else ()
    return [*(("train",) if task.name in learned else ()), *dev]


def _version(task: Task, splits: Iterable[str]) -> int:
    """Return the version of a task's job, which also covers the other tasks that the job predicts.

    A change in any of these tasks increases the version. Versions of tasks never decrease, so no
    value occurs twice.
    """
    followers = {name.rpartition(":")[0] for name in splits} - {task.name}
    return task.version + sum(find_task(name).version - 1 for name in followers)
