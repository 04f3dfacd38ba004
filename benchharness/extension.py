"""The class Extension, by which a package adds commands, suites and other features to benchharness.

This interface may change until version 0.2. An Extension contains only the names of functions and
classes, so that a module is imported only when it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

GROUPS = MEASURE, READ, COMPARE, USE, KEEP = (
    "Measure",
    "Read",
    "Compare",
    "Use the model",
    "Keep",
)
"""Names of the sections of `bench --help`, in order."""


class Command(NamedTuple):
    """Description of a command of `bench`.

    Attributes:
        place: The function, as `module:name` in the extension's package; empty for a command that
            has only subcommands.
        help: The sentence about the command that `bench --help` shows.
        example: An example of a call, without the word "bench".
        group: The section of `bench --help` that lists the command. If the command is a flag of
            another command, such as `check --write`, this is the heading in the help of that other
            command (`bench check --help`) under which the flag is listed.
        old: The former name of the command, which works until version 0.2; empty if the command was
            not renamed.
        after: The name of the command after which this command is listed. If it is empty, this
            command is listed at the end of its section, in the order in which commands are defined.
    """

    place: str
    help: str
    example: str
    group: str = ""
    old: str = ""
    after: str = ""


Table = Literal[
    "calls",
    "engines",
    "loggers",
    "heads",
    "answers",
    "hyperparameters",
    "techniques",
    "plans",
    "searches",
    "learners",
    "breakdowns",
    "prediction_files",
    "submissions",
    "sections",
    "facts",
    "guards",
    "sheets",
    "additions",
    "plots",
    "pages",
    "runners",
    "advice",
]
"""Names of the fields of `Extension` that map names to functions or classes.

The functions and classes are given in the form `module:name`."""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Description of everything that a package adds to benchharness.

    Functions, classes and sequences are named as `module:name`, where the module is in `package`.

    Attributes:
        name: The name of the extension.
        package: The package that contains the modules of the extension.
        needs: The names of extensions that this one needs. If one of them is not available, this
            extension is not available either.
        commands: Commands of `bench`, keyed by name, such as "check" or "db import".
        options: Functions that add options to a command, keyed by the name of the command. Each
            gets the function of the command and returns a function with more parameters.
        calls: Functions and classes that `import benchharness` makes available, keyed by name.
        engines: Functions that create a `Placement` from an `EngineChoice` (both are in
            `benchharness.engines.local`), keyed by the value of `--engine`.
        loggers: Classes with the methods of `benchharness.loggers.Logger`, keyed by the value of
            `--log`. Each class needs the Python package that has the same name as the key.
        suites: The names of modules that define the sequences TASKS and SUITES, as plugins do (see
            docs/plugins.md).
        heads: Functions `(task, options)` that create a Head of `benchharness.heads`, keyed by head
            type (`Task.head`). `options` are the hyperparameters of this head type.
        answers: Subclasses of `benchharness.tasks.answers.base.AnswerType`, keyed by the kind of
            task (`Task.kind`).
        hyperparameters: Dataclasses with the hyperparameters of a head type or a technique, keyed
            by the name of the head type or technique. Their fields are created by
            `benchharness.hyperparameter.hyperparameter`.
        techniques: Subclasses of `benchharness.worker.technique.Technique`, keyed by name. A job
            uses a technique if a hyperparameter of the technique is set.
        plans: Functions that get a `benchharness.driver.request.Request` and return the planning
            hooks of a technique (`benchharness.driver.technique.Technique`), by which it refuses
            requests or adds jobs, or None; keyed by the name of the technique.
        searches: Functions `(plan, tasks)` that return a `benchharness.driver.session.Search`,
            keyed by the option of `bench run` that asks for it; so far the only option is
            `--halving`.
        learners: Functions that train the bag-of-words baseline, keyed by the kind of task
            (`Task.kind`). Each has the type `benchharness.baselines.learners.Learner`.
        breakdowns: Functions `(task, metric name)` that yield the Breakdown objects of
            `benchharness.leaderboard.comparing` from which a score can be resampled, keyed by the
            kind of task (`Task.kind`). They are needed only for scores that are not means over
            examples.
        prediction_files: Objects that read files with predictions, keyed by the kind of task
            (`Task.kind`) or by the value of `SpanTask.files`. Each is a `Layout` of the extension
            "submission".
        submissions: Descriptions of the files for the official server of a suite, keyed by suite.
            Each is a `Form` of the extension "submission".
        runners: Functions `(job, report)` that run a job without training and return its Result,
            for tasks that measure speed or memory (`Task.is_measured`), keyed by the recipe of the
            job.
        sections: Functions that write a section of the report below a leaderboard, keyed by the
            heading of the section. Each gets `(store, board)` and returns HTML as a
            `markupsafe.Markup`, or an empty text to omit the section.
        facts: Functions that add facts to stored runs, keyed by the name of the fact in JSON. Each
            gets `(store, rows)` with RunRows, and returns a mapping from the keys of runs to JSON
            objects, whose "text" is shown to readers. Runs without such a fact are left out.
        guards: Functions that compute a number per run which `bench check` guards in addition to
            the score, keyed by the name in `bench check --write --guard NAME`. Each gets
            `(predicted, job, argument)`: a `PredictedSplit` of `benchharness.leaderboard.comparing`
            with one run, its Job, and the text after "=" in `--guard NAME=ARGUMENT`, and returns a
            number of which higher values are better.
        sheets: Functions that write a section of the sheet of a system (`bench sheet` and the model
            card), keyed by its heading. Each gets a `benchharness.stored.sheet.Subject` and returns
            a `Part` of the same module, or None to omit the section.
        additions: Classes that add content with styles and scripts of its own to the report: a
            section per leaderboard, and charts of learning curves; keyed by any word. Each has the
            methods of `benchharness.leaderboard.report.addition.Addition`.
        plots: Objects that add figures to the plots of each leaderboard in the report, keyed by a
            word with which the HTML ids of their sections end. Each is a `Plot` of the extension
            "plots".
        pages: Classes that write pages to which a report links, keyed by the option of
            `bench report` that asks for them; so far the only option is "predictions". They have
            the methods of `PredictionPages` in the extension "prediction_pages".
        advice: Functions `(options, store, rows)` that return what to run next: objects of
            `benchharness.driver.advice.Advice`, keyed by any word. They are called at the end of a
            run with its RunOptions, the open store and the RunRows of its finished jobs.
        recipes: The folder in the package with recipe files in TOML. The values in each file are
            added to the packaged recipe with the same file name.
        zero_shot: The name of the module that scores tasks without training. The module has the
            functions of `benchharness.recipes.zero_shot.ZeroShotScoring`.
        custom_tasks: The name of the module that infers tasks from users' own data. The module has
            the functions of `benchharness.tasks.custom.CustomTasks`.
        pytest_plugins: The names of modules that pytest loads as plugins.
    """

    name: str
    package: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    loggers: Mapping[str, str] = field(default_factory=dict)
    suites: tuple[str, ...] = ()
    heads: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    techniques: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, str] = field(default_factory=dict)
    searches: Mapping[str, str] = field(default_factory=dict)
    learners: Mapping[str, str] = field(default_factory=dict)
    breakdowns: Mapping[str, str] = field(default_factory=dict)
    prediction_files: Mapping[str, str] = field(default_factory=dict)
    submissions: Mapping[str, str] = field(default_factory=dict)
    runners: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    guards: Mapping[str, str] = field(default_factory=dict)
    sheets: Mapping[str, str] = field(default_factory=dict)
    additions: Mapping[str, str] = field(default_factory=dict)
    plots: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    recipes: str = ""
    zero_shot: str = ""
    custom_tasks: str = ""
    pytest_plugins: tuple[str, ...] = ()

    @property
    def is_packaged(self) -> bool:
        """True if the extension is part of benchharness."""
        return self.package.partition(".")[0] == "benchharness"
