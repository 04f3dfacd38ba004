"""The coreference head: segments, spans, antecedents and decoding to clusters."""

from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from benchharness.encoder import load_encoder
from benchharness.encoder.packing import prepare_for
from benchharness.errors import DataError
from benchharness.extensions.conll2012 import head as coref
from benchharness.extensions.conll2012.head import (
    CorefFeatures,
    Ranking,
    SpanRanker,
    Spans,
    _bucket,
    _candidates,
    _prune,
    decode,
    encode,
    loss,
    targets,
)
from benchharness.extensions.conll2012.hyperparameters import CorefOptions
from benchharness.extensions.conll2012.task import DocumentExample
from benchharness.extensions.conll2012.tasks import COREF
from benchharness.heads import Limits, head_for
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.training.compute import Part
from benchharness.training.predict import predict
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.training import CPU

DOCUMENT = DocumentExample(
    id="nw/0/000",
    sentences=(("Marie", "Skłodowska-Curie", "slept", "."), ("She", "was", "in", "Warsaw", ".")),
    speakers=("a", "b"),
    genre="nw",
    clusters=(((0, 2), (4, 5)),),
)


def documents(count: int) -> tuple[DocumentExample, ...]:
    return read(COREF, "dev", parse_data("mini"), count).examples  # type: ignore[return-value]


# Segments.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [8, 12, 24, 128])
def test_segments_contain_every_word_once_in_document_order(kind: str, max_tokens: int):
    examples = [DOCUMENT, *documents(3)]
    features = encode(examples, make_tokenizer(kind), Limits(max_tokens=max_tokens), COREF.genres)
    assert features.lengths.max() <= max_tokens
    bounds = features.starts[features.item_starts]
    for number, (example, start, end) in enumerate(zip(examples, bounds, bounds[1:], strict=False)):
        words = features.words[start:end]
        kept = words[words > 0]
        assert (np.diff(kept) >= 0).all()
        assert set(kept.tolist()) == set(range(1, len(example.words) + 1))
        assert set(features.documents[start:end].tolist()) == {number}
        sentence_of = np.repeat(np.arange(len(example.sentences)), [*map(len, example.sentences)])
        assert (features.sentences[start:end][words > 0] == sentence_of[kept - 1]).all()


def test_long_documents_are_segmented_between_sentences():
    features = encode([DOCUMENT], make_tokenizer("wordpiece"), Limits(max_tokens=14))
    whole = encode([DOCUMENT], make_tokenizer("wordpiece"), Limits(max_tokens=128))
    assert (len(whole), len(features)) == (1, 2)
    sides = np.split(features.words, features.starts[1:-1])
    assert [set(side[side > 0].tolist()) for side in sides] == [{1, 2, 3, 4}, {5, 6, 7, 8, 9}]


def test_coreference_targets_are_word_ranges_with_cluster_numbers():
    other = DocumentExample(id="nw/1/000", sentences=(("a",),), speakers=("-",), clusters=())
    features = encode([DOCUMENT, other], make_tokenizer("bytes"), Limits(max_tokens=64))
    found = targets(features, [DOCUMENT, other], COREF)
    assert found.tolist() == [[[1, 2, 1], [5, 5, 1]], [[0, 0, 0], [0, 0, 0]]]
    hidden = DocumentExample(id="nw/2/000", sentences=(("a",),), speakers=("-",))
    with pytest.raises(DataError, match=r"the clusters of example nw/2/000 .* are not published"):
        targets(features, [hidden], COREF)


# Spans.


def test_candidate_spans_never_cross_a_sentence_or_segment():
    words = torch.tensor([[0, 1, 1, 2, 3, 0, 0], [0, 4, 5, 5, 6, 0, 0]])
    sentences = torch.tensor([[0, 0, 0, 0, 1, 0, 0], [0, 1, 1, 1, 1, 0, 0]])
    found = _candidates(words, sentences)
    pairs = list(zip(found.firsts.tolist(), found.lasts.tolist(), strict=True))
    assert pairs == [(1, 1), (1, 2), (2, 2), (3, 3), (4, 4), (4, 5), (4, 6), (5, 5), (5, 6), (6, 6)]


def crosses(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] <= one[1] < other[1] or other[0] < one[0] <= other[1] < one[1]


@pytest.mark.parametrize("seed", range(20))
def test_span_pruning_keeps_the_best_spans_that_do_not_cross(seed: int):
    random, words = Random(seed), 12
    pairs = [(a, b) for a in range(1, words) for b in range(a, min(words, a + 4))]
    firsts, lasts = (torch.tensor(side) for side in zip(*pairs, strict=True))
    scores = torch.tensor([random.random() for _ in pairs])
    wanted, kept = int(words * 0.4), list[int]()
    for place in sorted(range(len(pairs)), key=lambda n: -scores[n]):
        if len(kept) < wanted and not any(crosses(pairs[place], pairs[k]) for k in kept):
            kept.append(place)
    found = _prune(scores, Spans(firsts, firsts, lasts, firsts, lasts), words)
    assert found.tolist() == sorted(kept)


def test_antecedent_distances_are_grouped_into_ten_buckets():
    found = _bucket(torch.tensor([0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 900]))
    assert found.tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]


# Scores of antecedents, compared with an independent computation span by span.


def made_ranker() -> tuple[SpanRanker, torch.Tensor, dict[str, torch.Tensor]]:
    torch.manual_seed(3)
    size, rows, tokens = 6, 2, 9
    ranker = SpanRanker(size, genres=3, segments=3).eval()
    for weight in ranker.parameters():
        nn.init.normal_(weight, std=0.4)
    words = torch.arange(1, rows * tokens + 1).view(rows, tokens)
    told = {
        "words": words,
        "sentences": words // 5,
        "speakers": words // 4 % 2,
        "documents": torch.zeros_like(words),
        "genres": torch.ones_like(words),
    }
    return ranker, torch.randn(rows, tokens, size), told


def layer(scorer: nn.Module, state: torch.Tensor) -> torch.Tensor:
    return scorer.output(functional.relu(scorer.hidden(state)))[0]  # type: ignore[operator]


def slow_scores(  # noqa: C901  (all of it at once, as it is read)
    ranker: SpanRanker, states: torch.Tensor, told: dict
) -> tuple[list, torch.Tensor]:
    """Compute the kept spans and the full table of scores, span by span; -inf for no antecedent."""
    spans = []
    for row in range(states.shape[0]):
        sentences = told["sentences"][row].tolist()
        for start in range(states.shape[1]):
            for end in range(start, states.shape[1]):
                if sentences[start] != sentences[end]:
                    break
                inside = states[row, start : end + 1]
                shares = ranker.head_word(inside).softmax(0)
                width = ranker.widths.weight[end - start]
                span = torch.cat([inside[0], inside[-1], width, (shares * inside).sum(0)])
                prior = layer(ranker.width_prior, ranker.prior_widths.weight[end - start])
                score = layer(ranker.mention, span) + prior
                first = row * states.shape[1] + start
                spans.append((float(score), first, first + end - start, row, span, score))
    spans.sort(key=lambda found: -found[0])
    kept = []
    for found in spans:
        if not any(crosses(found[1:3], other[1:3]) for other in kept):
            kept.append(found)
        if len(kept) == int(0.4 * states.shape[0] * states.shape[1]):
            break
    kept.sort(key=lambda found: found[1:3])
    count = len(kept)
    embedded = [found[4] for found in kept]
    for turn in range(2):
        table = torch.full((count, count + 1), -torch.inf)
        table[:, 0] = 0
        for i, j in product(range(count), range(count)):
            if j >= i:
                continue
            bucket = int(_bucket(torch.tensor(i - j)))
            original = kept[i][4], kept[j][4]
            cheap = kept[i][5] + kept[j][5] + ranker.source(original[0]) @ original[1]
            cheap = cheap + ranker.distance_prior(ranker.prior_distances.weight[bucket])[0]
            speakers = [int(told["speakers"].flatten()[kept[n][1]]) for n in (i, j)]
            features = torch.cat(
                [
                    ranker.same_speaker.weight[int(speakers[0] == speakers[1])],
                    ranker.genres.weight[1],
                    ranker.distances.weight[bucket],
                    ranker.segments.weight[kept[i][3] - kept[j][3]],
                ]
            )
            pair = torch.cat([embedded[i], embedded[j], embedded[i] * embedded[j], features])
            weight = torch.cat(
                [
                    part.weight
                    for part in (
                        ranker.of_span,
                        ranker.of_antecedent,
                        ranker.of_product,
                        ranker.of_features,
                    )
                ],
                dim=1,
            )
            hidden = functional.relu(weight @ pair + ranker.of_span.bias)
            table[i, j + 1] = cheap + ranker.pair(hidden)[0]
        if turn == 0:
            mixed = []
            for i in range(count):
                shares = table[i].softmax(0)
                attended = shares[0] * embedded[i] + sum(
                    shares[j + 1] * embedded[j] for j in range(i)
                )
                gate = ranker.gate(torch.cat([embedded[i], attended])).sigmoid()
                mixed.append(gate * attended + (1 - gate) * embedded[i])
            embedded = mixed
    return [found[1:3] for found in kept], table


def test_antecedent_scores_match_a_span_by_span_computation():
    ranker, states, told = made_ranker()
    with torch.no_grad():
        found = ranker(states, told)
        spans, table = slow_scores(ranker, states, told)
    kept = list(zip(found.spans.firsts.tolist(), found.spans.lasts.tolist(), strict=True))
    assert kept == [(first + 1, last + 1) for first, last in spans]
    assert found.scores[:, 0].tolist() == [0] * len(kept)
    for number in range(len(kept)):
        expected = table[number, 1:][found.antecedents[number]]
        torch.testing.assert_close(found.scores[number, 1:], expected, rtol=1e-4, atol=1e-4)


def test_coreference_loss_is_the_negative_marginal_log_likelihood_of_gold_antecedents():
    torch.manual_seed(1)
    places = torch.arange(4)
    spans = Spans(places * 0, places, places, places + 1, places + 1)
    antecedents = torch.tensor([[3, 2, 1, 0]]).expand(4, 4)
    is_before = antecedents < places[:, None]
    scores = torch.randn(4, 5).masked_fill(functional.pad(~is_before, (1, 0)), -torch.inf)
    scores[:, 0] = 0
    ranking = Ranking(spans=spans, scores=scores, antecedents=antecedents, is_before=is_before)
    # Words 1, 3 and 4 form a cluster. Word 2 is in no cluster, and word 9 was not kept.
    gold = torch.tensor([[1, 1, 1], [3, 3, 1], [4, 4, 1], [9, 9, 2], [0, 0, 0]])
    shares = scores.softmax(1)
    # Right columns of `scores` per span: 0 for no antecedent, then words 4, 3, 2, 1.
    right = [{0}, {0}, {4}, {2, 4}]
    expected = -sum(shares[n, sorted(found)].sum().log() for n, found in enumerate(right))
    assert ranking.loss(gold).item() == pytest.approx(expected.item(), rel=1e-5)


# The network.


def made(examples, max_tokens: int = 128, segments: int | None = None):
    head = head_for(COREF, CorefOptions(training_segments=segments))
    encoder = load_encoder("builtin:tiny", None, seed=1)
    torch.manual_seed(1)
    network = head.network(encoder, COREF)
    prepare_for(CPU.device, network)
    features = head.encode(examples, encoder.tokenizer, Limits(max_tokens=max_tokens))
    return head, network, features


def test_predictions_for_a_document_do_not_depend_on_its_batch():
    examples = documents(4)
    _, network, features = made(examples, max_tokens=24)
    together = predict(network, features, CPU, lambda _: None)
    bounds = features.starts[features.item_starts]
    for example, (start, end) in zip(examples, pairwise(bounds), strict=True):
        head, _, alone = made([example], max_tokens=24)
        codes = predict(network, alone, CPU, lambda _: None)
        assert (codes == together[start:end]).all()
        (prediction,) = head.decode(codes, alone, [example], COREF)
        mentions = [mention for cluster in prediction.clusters for mention in cluster]
        assert len(set(mentions)) == len(mentions)
        assert all(len(cluster) > 1 for cluster in prediction.clusters)
    assert together.shape == (len(features.token_ids), coref.MAX_SPAN_TOKENS)
    assert (together >= coref.FIRST_CODE).any()


def test_training_step_encodes_a_limited_number_of_segments_per_document():
    examples = documents(2)
    head, network, features = made(examples, max_tokens=24, segments=2)
    assert (features.item_sizes > 2).all()
    goals = torch.from_numpy(head.targets(features, examples, COREF))
    part = Part.of(features, np.arange(2), CPU.device, terms=2, layout="packed")
    network.train()
    read_rows = list[int]()
    network.encoder.register_forward_pre_hook(
        lambda _m, _a, inputs: read_rows.append(inputs["packing"].rows),
        with_kwargs=True,
        prepend=True,
    )
    losses = head.loss(part.side_by_side(network(**part.inputs, targets=goals)), goals)
    assert read_rows == [4]
    assert losses.shape == (2,)
    assert (losses > 0).all()
    losses.sum().backward()
    assert all(w.grad is not None for w in network.classifier.parameters())
    network.eval()
    assert network(**part.inputs).shape[0] == len(features)


def test_predicted_antecedents_are_decoded_to_clusters():
    features = encode([DOCUMENT], make_tokenizer("wordpiece"), Limits(max_tokens=128))
    codes = np.zeros((len(features.token_ids), coref.MAX_SPAN_TOKENS), dtype=np.float32)
    words = features.words.tolist()

    def at(first: int, last: int) -> tuple[int, int]:
        start = words.index(first)
        return start, len(words) - 1 - words[::-1].index(last) - start

    def code(span: tuple[int, int]) -> int:
        return coref.FIRST_CODE + span[0] * coref.MAX_SPAN_TOKENS + span[1]

    name, she, town, dot = at(1, 2), at(5, 5), at(8, 8), at(9, 9)
    codes[name], codes[town] = coref.ALONE, coref.ALONE
    codes[she], codes[dot] = code(name), code(she)
    (found,) = decode(codes, features, [DOCUMENT], COREF)
    assert found.clusters == (((0, 2), (4, 5), (8, 9)),)


def test_coreference_loss_ignores_padded_rows():
    table = torch.tensor([[[2.0], [0.0], [-torch.inf]], [[1.5], [-torch.inf], [-torch.inf]]])
    assert loss(table, torch.zeros(2)).tolist() == [2.0, 1.5]


def test_coreference_head_is_created_once_per_number_of_training_segments():
    assert head_for(COREF) is head_for(COREF)
    assert head_for(COREF, CorefOptions(training_segments=3)) is not head_for(COREF)
    assert isinstance(
        encode([DOCUMENT], make_tokenizer("bytes"), Limits(max_tokens=64)), CorefFeatures
    )
