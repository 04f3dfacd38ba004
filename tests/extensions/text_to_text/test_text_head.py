"""Tests of the text head against the loss and `generate` of transformers, row by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from benchharness.encoder import load_encoder
from benchharness.errors import DataError, ModelError
from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.extensions.text_to_text.head import (
    IGNORED,
    SILENT,
    TextFeatures,
    TextNetwork,
    text_head,
)
from benchharness.heads import Limits
from benchharness.tasks.examples import PairExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.meter import DivergedError
from benchharness.training.predict import predict
from tests.helpers.made_tokenizers import make_tokenizer
from tests.helpers.text_models import KINDS, TOLD_APART, save_text_model
from tests.helpers.training import CPU

LIMITS = Limits(max_tokens=96)
TASKS = ("glue/sst2", "glue/mnli", "glue/stsb", "superglue/copa", "squad/v1.1")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("text")
    return {kind: save_text_model(place / kind, kind, **TOLD_APART[kind]) for kind in KINDS}


def load(folder: Path) -> Any:
    return load_encoder(str(folder), None, seed=1, whole=True)


def examples_of(name: str, rows: int) -> Any:
    return read(find_task(name), "train", parse_data("mini"), rows).examples


def made(folder: Path, name: str, rows: int, longest: int = 40) -> tuple[Any, Any, Any, Any, Any]:
    task, encoder = find_task(name), load(folder)
    head = text_head(task, encoder.tokenizer, longest)
    examples = examples_of(name, rows)
    features = head.encode(examples, encoder.tokenizer, LIMITS)
    return head, encoder, head.network(encoder, task), features, examples


def ids_of(features: TextFeatures, row: int) -> torch.Tensor:
    start, end = features.starts[row : row + 2]
    return torch.from_numpy(features.token_ids[start:end].astype(np.int64))[None]


@pytest.mark.parametrize("kind", KINDS)
def test_text_to_text_loss_equals_that_of_transformers(folders: dict[str, Path], kind: str):
    """The loss of a row without padding is the sum over its target's tokens; theirs is the mean."""
    head, encoder, network, features, examples = made(folders[kind], "glue/mnli", 12)
    targets = torch.from_numpy(head.targets(features, examples, find_task("glue/mnli")))
    network.eval()
    width = int(features.lengths.max())
    ids = torch.full((12, width), features.pad_id)
    for row in range(12):
        ids[row, : features.lengths[row]] = ids_of(features, row)
    mask = torch.arange(width) < torch.from_numpy(features.lengths)[:, None]
    with torch.no_grad():
        found = network(targets=targets, input_ids=ids, attention_mask=mask.long())
        for row in range(12):
            labels = targets[row][targets[row] != IGNORED][None]
            theirs = encoder.network(input_ids=ids_of(features, row), labels=labels).loss
            assert float(found[row]) == pytest.approx(float(theirs) * labels.numel(), rel=1e-4)
    assert features.terms.tolist() == (targets != IGNORED).sum(1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_generates_the_same_text_as_single_rows(folders: dict[str, Path], kind: str):
    """Greedy tokens of padded batches are compared with `generate` on one row."""
    _agree(folders[kind], "glue/mnli", 12)


@pytest.mark.soak
@pytest.mark.parametrize("name", TASKS)
def test_batch_of_200_rows_generates_the_same_text_as_single_rows(
    folders: dict[str, Path], name: str
):
    _agree(folders["t5"], name, 200)


def _agree(folder: Path, name: str, rows: int) -> None:
    _, encoder, network, features, examples = made(folder, name, rows, longest=16)
    answers = predict(network, features, CPU, lambda _: None)
    config = encoder.config
    plain = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    # BART's config forces an end token at the maximum length.
    plain.generation_config.forced_eos_token_id = None
    for row in range(len(examples)):
        with torch.inference_mode():
            theirs = plain.generate(
                ids_of(features, row),
                max_new_tokens=network.room,
                do_sample=False,
                num_beams=1,
                decoder_start_token_id=config.decoder_start_token_id,
            )[0, 1:].tolist()
        said = answers[row][answers[row] != SILENT].astype(int).tolist()
        assert said == theirs, f"row {row} of {name}"
    assert len({tuple(answer) for answer in answers.tolist()}) > rows // 4, "rows are told apart"


def test_text_to_text_inputs_and_targets_have_their_special_tokens(folders: dict[str, Path]):
    for kind, first in (("t5", None), ("bart", 0)):
        head, encoder, network, features, examples = made(folders[kind], "glue/sst2", 4)
        eos = encoder.config.eos_token_id
        targets = head.targets(features, examples, find_task("glue/sst2"))
        for row in range(4):
            target = targets[row][targets[row] != IGNORED]
            assert target[-1] == eos == ids_of(features, row)[0, -1]
            assert first is None or target[0] == first
            words = encoder.tokenizer.decode(target, skip_special_tokens=True)
            assert words == examples[row].label
        # One token more than the longest label, so that a longer answer differs from the label.
        assert network.room == 1 + max(
            len(encoder.tokenizer(label)["input_ids"]) for label in ("positive", "negative")
        )


def test_generated_tokens_are_decoded_to_labels(folders: dict[str, Path]):
    head, encoder, network, features, examples = made(folders["t5"], "glue/sst2", 3)
    said = ("positive", "negativ", "negative")
    rows = np.full((3, network.room), SILENT, dtype=np.float32)
    for row, words in enumerate(said):
        ids = encoder.tokenizer(words)["input_ids"]
        rows[row, : len(ids)] = ids
    found = head.decode(rows, features, examples, find_task("glue/sst2"))
    assert [(p.label, p.text) for p in found] == [
        ("positive", None),
        ("", "negativ"),
        ("negative", None),
    ]


def test_long_text_to_text_inputs_and_targets_are_truncated_at_the_end(folders: dict[str, Path]):
    encoder, task = load(folders["t5"]), find_task("squad/v1.1")
    head = text_head(task, encoder.tokenizer, 6)
    examples = examples_of("squad/v1.1", 8)
    whole = head.encode(examples, encoder.tokenizer, Limits(max_tokens=512))
    cut = head.encode(examples, encoder.tokenizer, Limits(max_tokens=12))
    assert set(cut.lengths.tolist()) == {12}
    for row in range(8):
        assert ids_of(cut, row)[0, :-1].tolist() == ids_of(whole, row)[0, :11].tolist()
        assert ids_of(cut, row)[0, -1] == encoder.config.eos_token_id
    assert max(np.diff(cut.target_starts)) <= 6
    assert head.network(encoder, task).room == 6, "an answer that is free is bounded by that alone"


def test_text_head_predicts_but_does_not_train_on_rows_with_hidden_labels(
    folders: dict[str, Path],
):
    encoder, task = load(folders["t5"]), find_task("glue/sst2")
    head = text_head(task, encoder.tokenizer, 20)
    rows = [
        PairExample(id="a", text_a="good", label="positive"),
        PairExample(id="b", text_a="bad"),
    ]
    features = head.encode(rows, encoder.tokenizer, LIMITS)
    answers = predict(head.network(encoder, task), features, CPU, lambda _: None)
    assert len(head.decode(answers, features, rows, task)) == 2
    with pytest.raises(DataError, match=r"answer of example b in glue/sst2 is not published"):
        head.targets(features, rows, task)


def test_text_generation_with_nan_weights_is_a_divergence_error(folders: dict[str, Path]):
    _, _, network, features, _ = made(folders["t5"], "glue/sst2", 4)
    with torch.no_grad():
        next(network.parameters()).fill_(torch.nan)
    with pytest.raises(DivergedError):
        predict(network, features, CPU, lambda _: None)


def test_the_generation_config_of_a_checkpoint_is_ignored(folders: dict[str, Path]):
    """BART's checkpoint for summaries has four beams, a minimum length and a forced first token."""
    encoder = load(folders["bart"])
    encoder.network.generation_config = transformers.GenerationConfig(
        num_beams=4, min_length=30, forced_bos_token_id=0, no_repeat_ngram_size=3
    )
    network = TextNetwork(encoder, room=5)
    known = network.encoder.generation_config
    assert known.num_beams == 1
    assert (known.min_length or 0, known.forced_bos_token_id) == (0, None)
    assert not known.no_repeat_ngram_size


def test_text_to_text_input_is_formatted_by_the_task(folders: dict[str, Path]):
    _, encoder, _, features, examples = made(folders["t5"], "superglue/copa", 2)
    words = cast_of(find_task("superglue/copa")).words(examples[0])
    ids = ids_of(features, 0)[0]
    assert encoder.tokenizer.decode(ids, skip_special_tokens=True) == words


def test_text_to_text_on_an_encoder_only_model_is_an_error():
    with pytest.raises(ModelError, match="bert has no decoder"):
        load_encoder("builtin:tiny", None, seed=1, whole=True)


def test_loading_bart_without_the_option_text_to_text_is_an_error(folders: dict[str, Path]):
    with pytest.raises(ModelError, match=r"pass --text-to-text"):
        load_encoder(str(folders["bart"]), None, seed=1)


def test_an_unsupported_encoder_decoder_family_is_an_error(tmp_path: Path):
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64}
    config = transformers.M2M100Config(**sizes, encoder_ffn_dim=32, decoder_ffn_dim=32)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(tmp_path)
    make_tokenizer("wordpiece").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"m2m_100.*use a checkpoint of T5 or BART"):
        load(tmp_path)


def test_a_checkpoint_without_the_weights_of_its_decoder_is_an_error(
    folders: dict[str, Path], tmp_path: Path
):
    encoder = load_encoder(str(folders["t5"]), None, seed=1)
    encoder.network.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(folders["t5"])
    config.save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"lacks \d+ weights of its encoder and decoder"):
        load(tmp_path)
