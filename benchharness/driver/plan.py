"""From what a user asks for to jobs: models x tasks x seeds, each with the digests of its rows."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchharness.driver.request import ALL_ROWS, Request
from benchharness.driver.teachers import taught
from benchharness.engines.slots import have_bf16
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job, Kind, Start
from benchharness.machine import cpu_has_bf16
from benchharness.models import ModelSpec, weights_identity
from benchharness.models.folder import stated_pooling
from benchharness.plugins import plugins_of
from benchharness.recipes import ResolvedRecipe, resolve_sweep
from benchharness.recipes.resolve import (
    resolve_together,
    start_task,
    unused_settings,
    with_start,
)
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.errors import BenchError, DataError, ModelError
from benchharness.tasks.read import document_digest, has_split, read
from benchharness.tasks.sources import Data, missing_files, parse_data
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import Task

Recipes = Mapping[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]]
"""The points of the recipe of every model on every task: one, or those of a sweep."""


class RowCounts(NamedTuple):
    """Of one split: examples that are used, and rows that a convention or the limit left out."""

    used: int
    left_out: int
    cut: int


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
        wanted = with_starts(set(keys), self.jobs)
        jobs = tuple(job for job in self.jobs if job.key in wanted)
        return replace(self, jobs=jobs, grid=self.grid or self.jobs)

    def left_out_rows(self) -> dict[str, int]:
        """How many rows the benchmarks' conventions leave out, by "task:split", where any.

        What a task of one's own leaves out was said where it was found.
        """
        jobs = (job for job in self.jobs if job.definition is None)
        splits = {name: digest for job in jobs for name, digest in job.fingerprints.items()}
        return {
            name: self.rows[digest].left_out
            for name, digest in splits.items()
            if digest in self.rows and self.rows[digest].left_out
        }


def plan(request: Request) -> Plan:
    """The jobs of every model, task, configuration and seed, each once, in that order.

    A task that another one's model predicts (AX by MNLI's) becomes splits of that one's job; its
    rows belong to the job whenever the data have them, so that asking for MNLI alone and for all of
    GLUE plan the same job. A job that starts from another one's encoder, or learns from it, stands
    behind that, asked for or not; baselines come last. Raises BenchError, with a line for each
    setting that is wrong, before any data are read, and DataError where a split that is needed is
    malformed, or with a line for each task whose files are missing.
    """
    tasks, together, shots = request.tasks, request.multi_task, request.shots
    teacher, splits = request.teacher, request.splits
    if shots and together:
        raise BenchError("--shots and --multi-task exclude each other: take one of them out.")
    if teacher is not None:
        _check_taught(request)

    # ---- Who is asked for: encoders, and baselines.
    encoders, start = _find_encoders(request.models, request.start_from, shots)
    asked = [model for model in request.models if model.is_baseline]
    baselines = tuple(dict.fromkeys((*request.baselines, *asked)))

    # ---- Which tasks can run: what their recipes need has to be there.
    resolver = _Resolver(
        models=encoders,
        recipe=request.recipe,
        overrides=request.overrides,
        shots=shots,
        is_student=teacher is not None,
    )
    alone = PRETRAINED if start == TOGETHER else start  # those together are read anyway
    recipes, source = resolver.single(_leading_tasks(tasks), alone), parse_data(request.data)
    leading = _leading_tasks([*tasks, *together])
    _check_baselines(asked, leading)
    learned = _learned_tasks(leading, recipes, baselines)
    learned |= {task.name for task in _leading_tasks(together)}
    left_out = _left_out(request, recipes, source, learned)
    tasks, together = (
        tuple(t for t in some if t.name not in left_out) for some in (tasks, together)
    )

    # ---- The recipes of these tasks, alone and together, and of what they learn from.
    wanted, shared = [*tasks, *together], _check_together(_leading_tasks(together))
    leading = _leading_tasks(tasks if shared else wanted)
    recipes = resolver.single(leading, _start(start, shared))
    teachers = _resolve_teacher(teacher, recipes, start)
    learned |= {task for _, task in teachers}
    resolved = _Resolved(single=recipes, shared=resolver.together(shared), teachers=teachers)

    # ---- Read the rows, and make the jobs.
    reader = _Reader(source, request.limit, splits, learned)
    parts = _read_parts(reader, wanted, resolved, teacher)
    parts.check_shots()
    gpu, precision = request.slots[0].is_gpu, request.precision
    if precision == "auto" and gpu and not have_bf16(request.slots):
        precision = "fp32"
    precision = resolve_precision(precision, gpu=gpu)
    trained = parts.trainings(encoders, leading, request.seeds, precision)
    jobs: dict[str, Job] = {}
    for job in (*trained, *parts.baselines(baselines, _leading_tasks(wanted))):
        jobs.setdefault(job.key, job)
    notes = (
        *_unused_poolings(encoders),
        *(
            unused_settings(request.overrides, request.recipe, _setting_names(jobs.values()))
            if jobs
            else ()
        ),
        *_long_rows(jobs.values(), reader.words),
    )
    return Plan(jobs=tuple(jobs.values()), rows=parts.rows, left_out=left_out, notes=notes)


def with_starts(keys: set[str], jobs: Sequence[Job]) -> set[str]:
    """The keys and those of the jobs that they need, in the end."""
    needs = {job.key: job.needs for job in jobs}
    waiting = list(keys)
    while waiting:
        new = set(needs[waiting.pop()]) - keys
        keys |= new
        waiting += new
    return keys


def _unused_poolings(models: Iterable[ModelSpec]) -> Iterator[str]:
    """What folders of sentence-transformers say of their texts' vectors."""
    for model in models:
        if model.is_folder and (pooling := stated_pooling(Path(model.checkpoint))):
            yield (
                f"{model.name} says how its tokens make one vector ({pooling}), which is not used: "
                "heads read the encoder as its family's do."
            )


def _setting_names(jobs: Iterable[Job]) -> set[str]:
    return {name for job in jobs for name in job.settings}


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
            found.setdefault(said, {})[job.model] = None
    yield from (f"{said} ({', '.join(models)})." for said, models in found.items())


# Tasks that are trained together: one job of each model and seed, before those of single tasks.


def _check_together(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks that share an encoder, by name; none where it would be one alone.

    Raises BenchError where two of them are versions of one benchmark, or one trains nothing.
    """
    found: dict[str, str] = {}
    for task in tasks:
        if not task.is_trained:
            raise BenchError(f"{task.name} has no rows to train on: leave it out of --multi-task.")
        other = found.setdefault(task.benchmark or task.name, task.name)
        if other != task.name:
            raise BenchError(
                f"{other} and {task.name} cannot be trained together, because both are versions of "
                f"{task.benchmark} and share rows: leave one of them out of --multi-task."
            )
    return tuple(sorted(tasks, key=lambda task: task.name)) if len(tasks) > 1 else ()


def _start(start_from: str | None, shared: Sequence[Task]) -> str | Start | None:
    """What single tasks are started from."""
    if start_from != TOGETHER:
        return start_from
    names = ",".join(task.name for task in shared)
    return Start(kind="together", name=names) if shared else None


SharedRecipes = Mapping[ModelSpec, tuple[Sequence[Task], ResolvedRecipe]]
"""The tasks that are trained together, and each model's recipe for them."""


MOST_LINES = 20
"""How many tasks an error about missing files names, each on a line."""


def _left_out(
    request: Request, recipes: Recipes, source: Data, learned: Collection[str]
) -> dict[str, str]:
    """The tasks that cannot run, with the files that they lack, where these may be skipped.

    DataError where they may not, or no task is left.
    """
    tasks = (*request.tasks, *request.multi_task)
    needs = _needs(tasks, recipes)
    trained = {find_task(name).trained_on or name for name in needs}
    lacking: dict[str, str] = {}
    for name in needs:
        task = find_task(name)
        needed = list(task.source.splits)
        if not task.trained_on:
            needed = [*_train_splits(name, learned), *_dev_splits(task, request.splits)]
        if files := missing_files(task.source, needed, source, alone=len(trained) == 1):
            lacking[name] = f"no {files}"
    left_out = {
        task.name: "; ".join(
            lacking[name] if name == task.name else f"{name} has {lacking[name]}" for name in found
        )
        for task in tasks
        if (found := [name for name in _all_needs(task.name, needs) if name in lacking])
    }
    if lacking and not (
        request.skip_missing and len(left_out) < len({task.name for task in tasks})
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


def _all_needs(name: str, needs: Mapping[str, set[str]]) -> list[str]:
    """The task itself and what it needs, and what that needs."""
    found = [name]
    for each in found:
        found += sorted(needs[each] - set(found))
    return found


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


@dataclass(frozen=True, kw_only=True)
class _Resolved:
    """The recipes of a plan: of single tasks, of tasks together, and of a teacher's own runs."""

    single: Recipes
    shared: SharedRecipes
    teachers: Recipes


def _read_parts(
    reader: "_Reader",
    tasks: Sequence[Task],
    resolved: _Resolved,
    teacher: ModelSpec | Sequence[Job] | None,
) -> "_Parts":
    """Reads every split that the tasks, and those that they start from, are made of."""
    leading = _leading_tasks(tasks)
    wanted = {task.name for task in tasks}
    every = (*resolved.single, *resolved.teachers)
    starts = {name for _, name in every} - {task.name for task in leading}
    models = dict.fromkeys((*resolved.shared, *(model for model, _ in every)))
    parts = _Parts(
        data=str(reader.source),
        recipes=resolved.single,
        weights={model: weights_identity(model) for model in models},
        shared_recipes=resolved.shared,
        fingerprints={
            **{task.name: reader.fingerprints(task, wanted) for task in leading},
            **{name: reader.start_fingerprints(name) for name in starts},
        },
        rows=reader.rows,
        documents=reader.documents,
        limit=reader.limit,
    )
    return replace(parts, teachers=replace(parts, recipes=resolved.teachers), teacher=teacher)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What jobs are made of: points of recipes by model and task, fingerprints by task.

    `teachers` are what those of the `teacher` are made of, who is as a Request has it.
    """

    data: str
    recipes: Recipes
    shared_recipes: SharedRecipes
    weights: Mapping[ModelSpec, str]
    fingerprints: Mapping[str, Mapping[str, str]]
    rows: Mapping[str, RowCounts]
    documents: Mapping[str, str]
    limit: int | None
    teachers: "_Parts | None" = None
    teacher: ModelSpec | Sequence[Job] | None = None

    def trainings(
        self,
        models: Sequence[ModelSpec],
        tasks: Sequence[Task],
        seeds: Sequence[int],
        precision: str,
    ) -> Iterator[Job]:
        """The jobs of encoders: those of tasks together, then every point of single tasks."""
        for model, seed in product(self.shared_recipes, seeds):
            yield self.together(model, seed, precision)
        for model, task in product(models, tasks):
            points = range(len(self.recipes[model, task.name]))
            for point, seed in product(points, seeds):
                yield from self.chain(model, task.name, point, seed, precision)

    def chain(
        self, model: ModelSpec, task: str, point: int, seed: int, precision: str
    ) -> list[Job]:
        """A job behind those that it needs: its start, by the same point where it has as many.

        And its teacher; what a student starts from is a student too.
        """
        points = self.recipes[model, task]
        recipe = points[min(point, len(points) - 1)]
        if recipe.is_zero_shot:
            return [self._job(model, [task], recipe, 0, precision)]  # which no seed changes
        start = start_task(recipe)
        before = self.chain(model, start, point, seed, precision) if start else []
        if recipe.start is not None and recipe.start.kind == "together":
            before = [self.together(model, seed, precision)]
        start_from = before[-1].key if before else None
        job = self._job(model, [task], recipe, seed, precision, start_from)
        teachers = self._teachers(task, seed, precision)
        if teachers:
            own, first = isinstance(self.teacher, ModelSpec), before[-1] if before else None
            job = taught(job, first, teachers[-1], of_all_seeds=not own)
        return [*before, *teachers, job]

    def _teachers(self, task: str, seed: int, precision: str) -> list[Job]:
        """The teacher of a task's job with that seed, behind what it needs; none where none is."""
        if isinstance(self.teacher, ModelSpec) and self.teachers is not None:
            return self.teachers.chain(self.teacher, task, 0, seed, precision)
        return list(self.teacher or ())  # type: ignore[arg-type]

    def together(self, model: ModelSpec, seed: int, precision: str) -> Job:
        """The job of the tasks that share an encoder."""
        tasks, recipe = self.shared_recipes[model]
        return self._job(model, [task.name for task in tasks], recipe, seed, precision)

    def check_shots(self) -> None:
        """Raises DataError with a line for each task that has fewer training rows than shots."""
        lines: dict[str, None] = {}
        for (_, task), points in self.recipes.items():
            wanted = [int(p.settings["shots"].value) for p in points if "shots" in p.settings]
            if not wanted:
                continue
            count = self.rows[self.fingerprints[task][f"{task}:train"]].used
            if max(wanted) > count:
                lines[
                    f"{task} has {count} training rows here, fewer than --shots {max(wanted)}: "
                    "give fewer, or all."
                ] = None
        if lines:
            raise DataError(*lines)

    def baselines(self, models: Sequence[ModelSpec], tasks: Sequence[Task]) -> Iterator[Job]:
        """The jobs of baselines; they have no seed, and compute in the 64 bits of scikit-learn."""
        for model, task in product(models, tasks):
            if task.is_trained:
                (recipe,) = resolve_sweep(model, task.name, None, {})
                yield self._job(model, [task.name], recipe, 0, "fp64")

    def _job(  # noqa: PLR0913, PLR0917  (what differs between the jobs of a plan)
        self,
        model: ModelSpec,
        tasks: Sequence[str],
        recipe: ResolvedRecipe,
        seed: int,
        precision: str,
        start_from: str | None = None,
    ) -> Job:
        task = tasks[0]
        known, kind = find_task(task), _kind(model, recipe, find_task(task))
        fingerprints = {
            name: digest for each in tasks for name, digest in self.fingerprints[each].items()
        }
        if recipe.is_zero_shot:
            fingerprints = {n: f for n, f in fingerprints.items() if not n.endswith(":train")}
        is_cut = any(self.rows[digest].cut for digest in fingerprints.values())
        return Job(
            model=model.name,
            checkpoint=model.checkpoint,
            weights=self.weights.get(model) or weights_identity(model),
            task=task,
            task_version=_version(known, fingerprints),
            data=self.data,
            fingerprints=fingerprints,
            kind=kind,
            recipe=recipe.name,
            own_recipe=recipe.is_own,
            overridden=recipe.overridden,
            is_sweep=recipe.is_sweep,
            off=recipe.off,
            settings=recipe.settings,
            start=recipe.start,
            stage=model.stage,
            seed=seed,
            precision=precision,
            # Where the limit takes nothing away, the job is the one without a limit.
            limit=self.limit if is_cut else None,
            start_from=start_from,
            trust_remote_code=model.trust.remote_code,
            allow_pickle=model.trust.pickle,
            plugins=plugins_of(name.rpartition(":")[0] for name in fingerprints),
            definition=find_task(task).definition,
            documents=self._documents(fingerprints) if "context" in recipe.settings else {},
        )

    def _documents(self, splits: Iterable[str]) -> dict[str, str]:
        """The digests of what the sentences of tagging tasks stand in, by "task:split"."""
        found = {name: self.documents[name] for name in splits if name in self.documents}
        if lacking := [name for name, digest in found.items() if not digest]:
            task, _, split = lacking[0].rpartition(":")
            raise DataError(
                f"{task} {split} ({self.data}) does not say where its documents begin, as the "
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


def _check_taught(request: Request) -> None:
    """Raises BenchError where nobody can be taught, whoever the teacher is."""
    if request.multi_task or request.start_from == TOGETHER:
        raise BenchError(
            "--teacher and --multi-task exclude each other: a teacher is of one task, and so is "
            "its student."
        )
    if request.shots:
        raise BenchError(
            "--teacher and --shots exclude each other: the rows that the teacher has learned from "
            "would count too."
        )
    for task in _leading_tasks(request.tasks):
        if not task.is_trained:
            raise BenchError(
                f"{task.name} has no training rows, so nobody is taught: leave --teacher out."
            )


def _resolve_teacher(
    teacher: ModelSpec | Sequence[Job] | None, recipes: Recipes, start_from: str | None
) -> Recipes:
    """The recipes of a teacher that is a model, its own paper's, for the tasks of its students.

    Of the options for students it shares "pretrained" as the start: the start's rows may be absent.
    """
    if not isinstance(teacher, ModelSpec):
        return {}
    if teacher.is_baseline:
        raise BenchError(
            f"{teacher.name} is a baseline, which has no network to teach with: give --teacher an "
            "encoder."
        )
    tasks = [find_task(name) for name in dict.fromkeys(name for _, name in recipes)]
    start = PRETRAINED if start_from == PRETRAINED else None
    return _Resolver(models=[teacher]).single(tasks, start)


def _find_encoders(
    models: Sequence[ModelSpec], start_from: str | ModelSpec | None, shots: Sequence[int]
) -> tuple[list[ModelSpec], str | None]:
    """The models with an encoder, with another checkpoint's weights, and the start that is left."""
    encoders = [model for model in models if not model.is_baseline]
    if isinstance(start_from, ModelSpec):
        return [_with_weights(model, start_from) for model in encoders], start_from.name
    return encoders, _untrained_start(start_from) if shots else start_from


def _untrained_start(start_from: str | None) -> str:
    """What k-shot runs start from: the checkpoint, because another task would be more shots."""
    if start_from not in (None, PRETRAINED):
        raise BenchError(
            f"--shots and --start-from {start_from} exclude each other: its rows would count too."
        )
    return PRETRAINED


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


def _leading_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks with jobs of their own, each once; a follower stands for the one it follows."""
    found: dict[str, Task] = {}
    for task in tasks:
        leader = find_task(task.trained_on) if task.trained_on else task
        found.setdefault(leader.name, leader)
    return list(found.values())


@dataclass(frozen=True, kw_only=True)
class _Resolver:
    """Resolves the recipe of models, with what is set otherwise, and for numbers of their rows."""

    models: Sequence[ModelSpec]
    recipe: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    shots: Sequence[int] = ()
    is_student: bool = False

    def single(self, tasks: Sequence[Task], start_from: str | Start | None) -> Recipes:
        """The points of every pair's recipe, and of every task's that one of them starts from.

        A point without training stands behind all others.
        What is wrong with any of them is reported at once, each line once.
        """
        resolved: dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]] = {}
        problems: dict[str, None] = {}
        waiting = [(model, task) for model in self.models for task in tasks]
        for model, task in waiting:
            if (model, task.name) in resolved:
                continue
            try:
                found = tuple(self._points(model, task, start_from))
            except BenchError as error:
                problems |= dict.fromkeys(str(error).splitlines())
                continue
            resolved[model, task.name] = found
            if start := start_task(found[0]):
                waiting.append((model, find_task(start)))
        problems |= dict.fromkeys(_circles(resolved))
        if problems:
            raise BenchError(*problems)
        return resolved

    def _points(
        self, model: ModelSpec, task: Task, start_from: str | Start | None
    ) -> Iterator[ResolvedRecipe]:
        for values in _each_override(self.overrides, self.shots, task):
            for point in resolve_sweep(
                model, task.name, self.recipe, values, is_student=self.is_student
            ):
                yield with_start(point, model, task, recipe=self.recipe, start_from=start_from)
        if 0 in self.shots or not task.is_trained:
            yield zero_shot_recipe(task.name, model)

    def together(self, tasks: Sequence[Task]) -> SharedRecipes:
        """Each model's recipe for tasks together, from the weights that it has; none for none."""
        found: dict[ModelSpec, tuple[Sequence[Task], ResolvedRecipe]] = {}
        for model in self.models if tasks else ():
            resolved = resolve_together(model, tasks, self.recipe, self.overrides)
            if model.start is not None:
                resolved = with_start(resolved, model, tasks[0])
            found[model] = tasks, resolved
        return found


def _each_override(
    overrides: Mapping[str, str], shots: Sequence[int], task: Task
) -> Iterator[Mapping[str, str]]:
    """The values to train a task with, for each number of its rows; none where it has no rows."""
    if not task.is_trained:
        if shots and 0 not in shots:
            raise BenchError(f"{task.name} has no training rows: --shots 0, or nothing, scores it.")
        return
    if not shots:
        yield overrides
    for number in shots:
        if number == ALL_ROWS:
            yield overrides
        elif number:
            yield {**overrides, "shots": str(number)}


def _circles(recipes: Recipes) -> Iterator[str]:
    """A sentence about each task that starts, in the end, from itself."""
    starts = {pair: start_task(points[0]) for pair, points in recipes.items()}
    for model, task in recipes:
        names = [task]
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

    def __init__(
        self, source: Data, limit: int | None, splits: Sequence[str], learned: Collection[str]
    ) -> None:
        self.source, self.limit = source, limit
        self._learned = learned
        self._splits = splits
        self.rows: dict[str, RowCounts] = {}
        self.documents: dict[str, str] = {}
        self.words: dict[str, Sequence[int]] = {}

    def fingerprints(self, task: Task, wanted: Collection[str] = ()) -> dict[str, str]:
        """The digests of the train split, if it is needed, and of all that the job predicts.

        A follower's splits must be there where it is `wanted` by name.
        """
        own = (*_train_splits(task.name, self._learned), *self._own_splits(task))
        used = [(task, split) for split in own]
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

    def _own_splits(self, task: Task) -> list[str]:
        found = _dev_splits(task, self._splits)
        if "test" in self._splits:
            found += [split for split in task.test_splits if has_split(task, split, self.source)]
        return found

    def _fingerprint(self, task: Task, split: str) -> str:
        rows = read(task, split, self.source, self.limit)
        self.rows[rows.fingerprint] = RowCounts(len(rows.examples), rows.left_out, rows.cut)
        if task.definition:
            self.words[rows.fingerprint] = [example.count_words() for example in rows.examples]
        if task.head == "tag":
            self.documents[f"{task.name}:{split}"] = document_digest(rows.examples)
        return rows.fingerprint


def _train_splits(task: str, learned: Collection[str]) -> list[str]:
    return ["train"] if task in learned else []


def _dev_splits(task: Task, kinds: Collection[str]) -> list[str]:
    return list(task.dev_splits) if "dev" in kinds else []


def _version(task: Task, splits: Iterable[str]) -> int:
    """The task's version, raised by every later version of the tasks that its model predicts.

    Versions only go up, so the sum never comes back to what it was.
    """
    followers = {name.rpartition(":")[0] for name in splits} - {task.name}
    return task.version + sum(find_task(name).version - 1 for name in followers)
