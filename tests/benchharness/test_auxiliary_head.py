"""Tests of auxiliary outputs of a span head: fixed answers, classes and evidence sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchharness.heads import Limits, head_for
from benchharness.heads.auxiliary import with_auxiliary
from benchharness.heads.span import SPAN, SpanFeatures, decode, encode, targets
from benchharness.recipes.recipe import SpanOptions
from benchharness.tasks.examples import SpanExample
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import SpanTask
from tests.helpers.made_tokenizers import CORPUS, KINDS, make_tokenizer
from tests.helpers.span_features import points

STORY = " ".join(CORPUS[:5])
LEAD = "yes no unknown"
CONTEXT = f"{LEAD}\n{STORY}"
SHORT = Limits(max_tokens=60, stride=20)


def task(name: str) -> SpanTask:
    found = find_task(name)
    assert isinstance(found, SpanTask)
    return found


def fixed(answer: str, evidence: str = "") -> SpanExample:
    start = CONTEXT.index(answer)
    place = CONTEXT.index(evidence) if evidence else 0
    return SpanExample(
        id="q",
        question="Was it old?",
        context=CONTEXT,
        answers=((answer, start),),
        lead=len(LEAD),
        evidence=((place, place + len(evidence)),) if evidence else (),
    )


def windows(features: SpanFeatures) -> list[slice]:
    return [slice(a, b) for a, b in zip(features.starts, features.starts[1:], strict=False)]


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_answers_such_as_yes_and_no_are_in_every_window(kind: str) -> None:
    features = encode([fixed("no")], make_tokenizer(kind), SHORT)
    assert len(features) > 2
    assert features.lengths.max() <= 60
    assert features.pieces is not None
    for part in windows(features):
        inside = features.pieces[part] > 0
        spans = zip(
            features.char_starts[part][inside], features.char_ends[part][inside], strict=True
        )
        covered = {place for span in spans for place in range(*span)}
        assert "".join(CONTEXT[place] for place in sorted(covered)) == LEAD.replace(" ", "")
        assert features.is_best[part][inside].all()
    # The windows together cover all characters of the story.
    characters = np.zeros(len(CONTEXT), dtype=bool)
    for start, end in zip(features.char_starts, features.char_ends, strict=True):
        characters[start:end] = True
    assert all(found or letter.isspace() for found, letter in zip(characters, CONTEXT, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_predicted_span_never_combines_a_fixed_answer_with_other_text(kind: str) -> None:
    example = fixed("no")
    features = encode([example], make_tokenizer(kind), SHORT)
    assert features.pieces is not None
    part = windows(features)[0]
    yes = np.flatnonzero(features.pieces[part] == 1)
    story = np.flatnonzero(features.is_answer[part] & (features.pieces[part] == 0))
    logits = np.zeros((len(features.token_ids), 2), dtype=np.float32)
    logits[part][yes[0], 0] = 10.0
    logits[part][story[0], 1] = 10.0
    (found,) = decode(logits, features, [example], task("coqa/coqa"))
    assert found.text in (*LEAD.split(), "yes") or found.text in STORY
    logits[part][yes[-1], 1] = 5.0
    (found,) = decode(logits, features, [example], task("coqa/coqa"))
    assert found.text == "yes"


def test_fixed_answer_is_a_target_only_in_windows_that_contain_its_evidence() -> None:
    last = CORPUS[4].split(" ", 1)[1]
    for evidence, count in (("", 0), (last, 1)):
        example = fixed("no", evidence)
        features = encode([example], make_tokenizer("bytes"), SHORT)
        rows = targets(features, [example], task("coqa/coqa"))
        learned = rows[:, 0] != features.nulls
        assert learned.sum() < len(features) if count else learned.all()
        assert learned.any()
        for row, part in zip(rows[learned], np.array(windows(features))[learned], strict=True):
            texts = features.char_starts[part][row[0]], features.char_ends[part][row[1]]
            assert CONTEXT[slice(*texts)] == "no"


def test_target_span_may_differ_from_the_gold_answers() -> None:
    start = CONTEXT.index("Warsaw")
    example = replace(fixed("no"), answers=(("free words", -1),), span=(start, start + 6))
    features = encode([example], make_tokenizer("wordpiece"), Limits(max_tokens=384))
    ((first, last),) = targets(features, [example], task("coqa/coqa"))
    places = features.char_starts[first], features.char_ends[last]
    assert CONTEXT[slice(*places)] == "Warsaw"


# Classes of a question, and supporting sentences.


def asked() -> tuple[SpanTask, list[SpanExample]]:
    """Return two questions with dialog acts and evidence (the second: two sentences)."""
    both = replace(task("hotpotqa/distractor"), classes=(("y", "n", "x"), ("a", "b")))
    sentences, start = [], len(LEAD) + 1
    for sentence in CORPUS[:5]:
        sentences.append((start, start + len(sentence)))
        start += len(sentence) + 1
    one = replace(fixed("no"), sentences=tuple(sentences), facts=(1, 4, 7), classes=("n", "b"))
    other = replace(one, id="r", sentences=tuple(sentences[:2]), facts=(0,), classes=("x", "a"))
    return both, [one, other]


@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_start_is_in_at_least_one_window(kind: str) -> None:
    _, examples = asked()
    features = encode(examples, make_tokenizer(kind), SHORT)
    assert features.sentences is not None
    edges = features.windows
    for number, example in enumerate(examples):
        rows = features.sentences[edges[number] : edges[number + 1]]
        seen = set(np.flatnonzero((rows >= 0).any(0)).tolist())
        assert seen == set(range(len(example.sentences)))
        for row in range(edges[number], edges[number + 1]):
            part = windows(features)[row]
            for sentence, place in enumerate(features.sentences[row]):
                if place >= 0:
                    first = features.char_starts[part][place]
                    assert first == example.sentences[sentence][0]


def test_perfect_logits_with_auxiliary_outputs_decode_to_the_gold_answers() -> None:
    both, examples = asked()
    head = with_auxiliary(SPAN, both)
    features = head.encode(examples, make_tokenizer("wordpiece"), SHORT)
    wanted = head.targets(features, examples, both)
    logits = np.full((len(features.token_ids), 2 + 5 + 1), -1.0, dtype=np.float32)
    logits[:, :2] = points(features, wanted[:, :2])
    for row, (part, target) in enumerate(zip(windows(features), wanted, strict=True)):
        null, one, other = target[2:5]
        assert null == features.nulls[row]
        logits[part][null, 2 + one] = logits[part][null, 5 + other] = 4.0
        places, facts = np.split(target[5:], 2)
        for place, fact in zip(places, facts, strict=True):
            if place >= 0 and fact:
                logits[part][place, -1] = 3.0
    found = head.decode(logits, features, examples, both)
    assert [p.text for p in found] == ["no", "no"]
    assert [p.classes for p in found] == [("n", "b"), ("x", "a")]
    assert [p.facts for p in found] == [(1, 4), (0,)], "the third fact is of no sentence"


@pytest.mark.parametrize("values", [None, SpanOptions(beam_size=5, answerable_weight=0.5)])
def test_auxiliary_head_loss_is_the_sum_over_all_outputs(values: SpanOptions | None) -> None:
    both, examples = asked()
    head = head_for(both, values)
    tokenizer = make_tokenizer("wordpiece")
    features = head.encode(examples, tokenizer, Limits(max_tokens=120))
    wanted = torch.from_numpy(head.targets(features, examples, both))
    generator = torch.Generator().manual_seed(3)
    longest = int(features.lengths.max())
    logits = torch.randn(len(features), longest, 2 + 1 * bool(values) + 6, generator=generator)
    own = head_for(replace(both, classes=(), facts=False), values)
    parts = own.loss(logits[..., :-6], wanted[:, : 2 + bool(values)])
    rest = wanted[:, 2 + bool(values) :]
    rows = torch.arange(len(features))
    at_null = logits[rows, rest[:, 0], -6:]
    for (start, end), column in (((0, 3), 1), ((3, 5), 2)):
        log = at_null[:, start:end].log_softmax(-1)
        parts = parts - log[rows, rest[:, column]]
    places, facts = rest[:, 3:].chunk(2, dim=1)
    for row in range(len(features)):
        terms = [
            torch.nn.functional.softplus(logits[row, place, -1] * (1 - 2 * fact))
            for place, fact in zip(places[row].tolist(), facts[row].tolist(), strict=True)
            if place >= 0
        ]
        parts[row] += torch.stack(terms).mean() if terms else 0.0
    torch.testing.assert_close(head.loss(logits, wanted), parts)


def test_task_without_auxiliary_outputs_uses_the_plain_span_head() -> None:
    assert head_for(task("squad/v2.0")) is SPAN
    assert head_for(task("coqa/coqa")) is SPAN
    assert head_for(task("quac/quac")) is not SPAN
