"""XTREME without retrieval: seven tasks, with training in English and scores in many languages.

Languages and averages are as in Hu et al., ICML 2020, and in
https://github.com/google-research/xtreme (838c13b). Each language has a test split with public
labels. Some tasks also have splits `train_LANGUAGE`, on which a model can be trained instead of
English. As in XTREME, a model that was trained on English SQuAD predicts both XQuAD and MLQA.

For UDPOS, the rows of the hub differ from those of the official files. The hub has the parts of
fused words ("zu" and "dem" for the German "zum"), which XTREME's own script joins. Therefore the
results on both are shown on separate leaderboards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from benchharness.extensions.xtreme.metrics import BARE_METRICS
from benchharness.extensions.xtreme.treebanks import conllu_records
from benchharness.tasks.conll import ENTITY_TAGS
from benchharness.tasks.examples import PairExample, TagExample
from benchharness.tasks.glue import NLI_LABELS, pair
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.metrics.entities import (
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    word_accuracy,
)
from benchharness.tasks.metrics.squad import EVALUATE_MLQA, EVALUATE_V1, MLQA_METRICS, SQUAD_V1
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import ODDITIES, text, texts
from benchharness.tasks.squad import COLUMNS, SQUAD_1, question
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import (
    Metric,
    PairTask,
    Script,
    SpanTask,
    TagTask,
    Task,
    cannot_be_learned,
    suffix_of,
)

MINI = "mini"
"""Language code of the mini data that are used for languages without mini data of their own."""

REVISIONS = {
    "facebook/xnli": "b8dd5d7af51114dbda02c0e3f6133f332186418e",
    "google-research-datasets/paws-x": "4cd8187c404bda33cb1f62b49b001115862acf37",
    "google-research-datasets/tydiqa": "da78f23f9119363459acbaf46bf89426ff26c259",
}
"""Commits of data sets on the hub. For other data sets, the main branch is read, because their
commits could not be confirmed.
"""

TaskT = TypeVar("TaskT", bound=Task)


def _evaluate(*metrics: Metric[Any, Any]) -> Script:
    """Describe the numbers that XTREME's evaluate.py prints for one language of a task."""
    return Script(lines={metric.name: metric for metric in metrics})


def _task(
    kind: type[TaskT], title: str, languages: str, files: Mapping[str, str], hub: str, **facts: Any
) -> TaskT:
    """Create a task with several languages.

    Args:
        kind: Class of the task.
        title: Title of the task.
        languages: Language codes, separated by spaces. A code may be followed by the language's
            name in files, e.g. "de:German".
        files: Possible files of a language, keyed by "train", "dev" and "test", and separated by
            spaces. "{code}" and "{name}" are replaced by those of the language.
        hub: Name of the data set on the hub, config of a language (with "{code}" or "{name}"), and
            name of the test split on the hub, separated by spaces.
        **facts: Other fields of the task. `source` has other fields of `Source`, and may have
            `train`, the columns of train if they differ. If it has `language_of`, a file has rows
            in several languages.
    """
    names = dict(each.partition(":")[::2] for each in languages.split()) | {MINI: MINI}
    source: dict[str, Any] = dict(facts.pop("source"))
    train_columns = source.pop("train", None)
    several = train_columns and {**source["columns"], "language": "language"}
    repository, config, test = hub.split()

    def split(part: str, code: str) -> Split:
        mine, others = (
            files[part].format(code=each, name=names[each]).split() for each in (code, MINI)
        )
        is_apart = part == "train" and train_columns
        has_language = kind is SpanTask or ("language_of" in source and not is_apart)
        return Split(
            hub={"train": "train", "dev": "validation", "test": test}[part],
            files=(*mine, *(f"{MINI}/{path}" for path in others)),
            columns=train_columns if is_apart else several,
            config=config.format(code=code, name=names[code]),
            language=code if has_language else "",
        )

    codes = [code for code in names if code != MINI]
    splits = {part: split(part, "en") for part in ("train", "dev") if part in files}
    splits |= {f"test_{code}": split("test", code) for code in codes}
    if "train" in files:
        splits |= {f"train_{code}": split("train", code) for code in codes if code != "en"}
    revision = REVISIONS.get(repository, "main")
    source |= {"config": "en", "revision": revision, "home": "xtreme", "splits": splits}
    return kind(
        title=title,
        source=Source(hub=repository, spellings={"xtreme": ("download",)}, **source),
        split_titles={f"test_{code}": code for code in codes},
        public_tests=True,
        **facts,
    )


def _same(columns: str) -> dict[str, str]:
    """Return a mapping of columns that have the same name in files and on the hub."""
    return {name: name for name in columns.split()}


# Pairs of sentences. In XNLI's test and dev files, one table has the rows of all languages.


def _of_language(row: Row) -> str | None:
    """Return the language of a row in the official table; None for rows without this column."""
    language = row.get("language")
    return None if language in (None, MINI) else str(language)


_XNLI = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}

XNLI = _task(
    *(PairTask, "XNLI", "ar bg de el en es fr hi ru sw th tr ur vi zh"),
    {
        "train": "XNLI-MT-1.0/multinli/multinli.train.{code}.tsv",
        "dev": "XNLI-1.0/xnli.dev.tsv",
        "test": "XNLI-1.0/xnli.test.tsv",
    },
    "facebook/xnli {code} test",
    source={
        "language_of": _of_language,
        "columns": _XNLI,
        "train": _same("premise label") | {"hypothesis": "hypo"},
        "label_names": NLI_LABELS,
        "label_texts": {n: n for n in NLI_LABELS} | {"contradictory": "contradiction"},
    },
    name="xtreme/xnli",
    convert=pair("premise", "hypothesis"),
    labels=NLI_LABELS,
    metrics=(accuracy,),
    script=_evaluate(accuracy),
    benchmark="MNLI",
    cite="Conneau et al., XNLI: Evaluating Cross-lingual Sentence Representations, EMNLP 2018",
)

NOT_TRANSLATED = "sentences that were not translated (NS) are scored like others"
"""Note on rows in which a sentence is the mark "NS" instead of a translation."""


def _paraphrase(row: Row) -> PairExample:
    found = pair("sentence1", "sentence2")(row)
    odd = (NOT_TRANSLATED,) if "NS" in (found.text_a.strip(), (found.text_b or "").strip()) else ()
    return replace(found, oddities=found.oddities + odd)


PAWSX = _task(
    *(PairTask, "PAWS-X", "de en es fr ja ko zh"),
    {
        "train": "x-final/{code}/train.tsv x-final/{code}/translated_train.tsv",
        "dev": "x-final/{code}/dev_2k.tsv",
        "test": "x-final/{code}/test_2k.tsv",
    },
    "google-research-datasets/paws-x {code} test",
    source={"columns": _same("sentence1 sentence2 label"), "label_names": ("0", "1")},
    name="xtreme/pawsx",
    convert=_paraphrase,
    labels=("0", "1"),
    metrics=(accuracy,),
    script=_evaluate(accuracy),
    cite="Yang et al., PAWS-X: A Cross-lingual Adversarial Dataset, EMNLP 2019",
)


NO_LANGUAGE = "words without a language code are left out, as by XTREME's script"
"""Note on words in WikiANN's files that do not begin with a language code."""


def _words(rows: Sequence[Row]) -> list[Row]:
    """Remove the language code before each word in WikiANN's files, e.g. "de:" in "de:Bonn".

    Words without a language code are dropped, and the first row reports their number. Rows from the
    hub are not changed, because their words have no codes. Raises ValueError if no word has a code.
    """
    found, left_out = list[Row](), 0
    for row in rows:
        if "document" not in row:  # the row is from the hub
            found.append(row)
            continue
        pairs = [*zip(texts(row, "tokens"), texts(row, "ner_tags"), strict=True)]
        kept = [(word.partition(":")[2], tag) for word, tag in pairs if ":" in word]
        left_out += len(pairs) - len(kept)
        if kept:
            words, tags = zip(*kept, strict=True)
            found.append({**row, "tokens": [*words], "ner_tags": [*tags]})
    if left_out and not found:
        raise ValueError("no word begins with a language code, as in 'de:Bonn'")
    if left_out:
        found[0] = {**found[0], ODDITIES: [NO_LANGUAGE] * left_out}
    return found


def _tagged(row: Row) -> TagExample:
    tags = "ner_tags" if "ner_tags" in row else "pos_tags"
    return TagExample(id=str(row["idx"]), words=texts(row, "tokens"), tags=texts(row, tags))


def _of_tags(column: str, tags: Sequence[str]) -> dict[str, Any]:
    return {"columns": _same(f"tokens {column}"), "label": column, "label_names": tags}


PANX_TAGS = tuple(tag for tag in ENTITY_TAGS if not tag.endswith("MISC"))
"""Entity tags of WikiANN: those of CoNLL-2003 without MISC."""

PANX = _task(
    TagTask,
    "WikiANN",
    "ar he vi id jv ms tl eu ml ta te af nl en de el bn hi mr ur fa fr it pt es bg ru ja ka ko th "
    "sw yo my zh kk tr et fi hu",
    {p: f"panx_dataset/{{code}}/{p} panx_dataset/{{code}}-{p}" for p in ("train", "dev", "test")},
    "google/xtreme PAN-X.{code} test",
    source={**_of_tags("ner_tags", PANX_TAGS), "format": "conll", "arrange": _words},
    name="xtreme/panx",
    convert=_tagged,
    metrics=(entity_f1,),
    details=(entity_precision, entity_recall, tag_accuracy),
    script=_evaluate(entity_f1, entity_precision, entity_recall),
    tags=PANX_TAGS,
    cite="Pan et al., Cross-lingual Name Tagging and Linking for 282 Languages, ACL 2017",
)

POS_TAGS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN"),
    *("PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""Parts of speech in Universal Dependencies, in the order of the hub's labels."""


def _has_no_text(_split: str, example: TagExample) -> bool:
    """Return whether all or all but one of the words are "_".

    Some treebanks are released without texts. XTREME's script drops their sentences too.
    """
    hidden = example.words.count("_")
    return bool(hidden) and hidden >= len(example.words) - 1


UDPOS = _task(
    TagTask,
    "UDPOS",
    "af:Afrikaans ar:Arabic bg:Bulgarian de:German el:Greek en:English es:Spanish et:Estonian "
    "eu:Basque fa:Persian fi:Finnish fr:French he:Hebrew hi:Hindi hu:Hungarian id:Indonesian "
    "it:Italian ja:Japanese kk:Kazakh ko:Korean mr:Marathi nl:Dutch pt:Portuguese ru:Russian "
    "ta:Tamil te:Telugu th:Thai tl:Tagalog tr:Turkish ur:Urdu vi:Vietnamese yo:Yoruba zh:Chinese",
    # All treebanks of a language are read, e.g. UD_German-GSD/de_gsd-ud-test.conllu.
    {p: f"ud-treebanks-v2.5/*/{{code}}_*-ud-{p}.conllu" for p in ("train", "dev", "test")},
    "google/xtreme udpos.{name} test",
    source={**_of_tags("pos_tags", POS_TAGS), "read_records": conllu_records},
    name="xtreme/udpos",
    convert=_tagged,
    leaves_out=_has_no_text,
    metrics=BARE_METRICS[:1],
    details=(*BARE_METRICS[1:], word_accuracy),
    script=_evaluate(*BARE_METRICS),
    tags=POS_TAGS,
    cite="Nivre et al., Universal Dependencies v2, LREC 2020",
)


ENGLISH_SQUAD = replace(
    SQUAD_1,
    name="xtreme/squad-en",
    title="English SQuAD",
    metrics=SQUAD_V1[::-1],
    cite="Hu et al., XTREME, ICML 2020: SQuAD 1.1, whose model answers XQuAD and MLQA",
)
"""Task SQuAD 1.1 in English, whose model also predicts XQuAD and MLQA. Models are selected by the
first metric of the task, which is F1.
"""

_SQUAD = {"format": "squad", "no_answer": False, "columns": _same(" ".join(COLUMNS))}

XQUAD = _task(
    *(SpanTask, "XQuAD", "en es de el ru tr ar vi th zh hi"),
    {"test": "xquad/xquad.{code}.json"},
    "google/xtreme XQuAD.{code} validation",
    source=_SQUAD,
    name="xtreme/xquad",
    convert=question,
    metrics=SQUAD_V1,
    script=EVALUATE_V1,
    trained_on=ENGLISH_SQUAD.name,
    cite="Artetxe et al., On the Cross-lingual Transferability of Representations, ACL 2020",
)


MLQA = _task(
    *(SpanTask, "MLQA", "en es de ar hi vi zh"),
    {p: f"MLQA_V1/{p}/{p}-context-{{code}}-question-{{code}}.json" for p in ("dev", "test")},
    "google/xtreme MLQA.{code}.{code} test",
    source=_SQUAD,
    name="xtreme/mlqa",
    convert=lambda row: replace(question(row), language=text(row, "language")),
    metrics=MLQA_METRICS,
    script=EVALUATE_MLQA,
    trained_on=ENGLISH_SQUAD.name,
    cite="Lewis et al., MLQA: Evaluating Cross-lingual Extractive Question Answering, ACL 2020",
)

_TYDI = (
    "en:english ar:arabic bn:bengali fi:finnish id:indonesian ko:korean ru:russian sw:swahili "
    "te:telugu"
)


def _begins_with_language(row: Row) -> str | None:
    """Return the language of a question in TyDi QA, which is the first part of its id.

    For example, "english--3215621880858840488-2" is in English. Returns None for mini data. Raises
    ValueError if the language is unknown.
    """
    name = text(row, "id").partition("-")[0]
    known = {each.partition(":")[2]: each.partition(":")[0] for each in _TYDI.split()}
    if name != MINI and name not in known:
        raise ValueError(f"the question id {row['id']!r} does not begin with a language of TyDi QA")
    return known.get(name)


# XTREME's download has one file per language, and TyDi QA's release has one file for all languages.
_TYDI_DEV = ("tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-{name}.json", "tydiqa-goldp-v1.1-dev.json")

TYDIQA = _task(
    SpanTask,
    "TyDiQA-GoldP",
    _TYDI,
    {
        "train": "tydiqa/tydiqa-goldp-v1.1-train.json tydiqa-goldp-v1.1-train.json",
        **dict.fromkeys(("dev", "test"), " ".join(f"tydiqa/{each} {each}" for each in _TYDI_DEV)),
    },
    "google-research-datasets/tydiqa secondary_task validation",
    source={"language_of": _begins_with_language, "optional": ("title",), **_SQUAD},
    name="xtreme/tydiqa",
    # Only the hub has titles, so they are dropped.
    convert=lambda row: replace(question(row), title=""),
    metrics=SQUAD_V1,
    script=EVALUATE_V1,
    leaves_out=cannot_be_learned,
    cite="Clark et al., TyDi QA: A Benchmark for Information-Seeking QA, TACL 2020",
)

XTREME_TASKS = (XNLI, PAWSX, UDPOS, PANX, XQUAD, MLQA, TYDIQA, ENGLISH_SQUAD)
"""Tasks in the order of the paper's table, and then English SQuAD, whose model predicts XQuAD and
MLQA.
"""

XTREME_CELLS: Mapping[str, tuple[str, ...]] = {
    task.name: tuple(
        metric.name + suffix_of(split) for split in task.split_titles for metric in task.metrics
    )
    for task in XTREME_TASKS
    if task is not ENGLISH_SQUAD
}
"""Names of the scores that XTREME's evaluate.py averages, keyed by task: for question answering, EM
and F1 of each language, and for other tasks, the metric of each language.
"""

XTREME_7 = ScoreRule(
    name="XTREME-7",
    cells=XTREME_CELLS,
    cite="Hu et al., XTREME, ICML 2020, without retrieval: languages weigh the same, then tasks",
)

TASKS = XTREME_TASKS
SUITES = (
    replace(
        suite_of(XTREME_TASKS, "XTREME", XTREME_7, "Hu et al., XTREME, ICML 2020"),
        recipe=Path(__file__).with_name("recipe.toml"),
    ),
)
