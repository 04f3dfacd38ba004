"""Text head: text-to-text with an encoder and its decoder; input and answer are texts.

casts.py converts examples to input texts and answers to predictions. Training uses
teacher forcing; prediction uses greedy decoding with transformers' `generate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from benchharness.encoder import Encoder
from benchharness.errors import DataError
from benchharness.extensions.text_to_text.casts import Cast, cast_of
from benchharness.heads import Head, Limits
from benchharness.heads.tokens import Frame, Ids, join, tokenize_ids
from benchharness.tasks.examples import Prediction
from benchharness.tasks.task import Task
from benchharness.training.batching import Features

IGNORED = -100
"""Target id at the positions after the end of an answer, which have no loss."""

SILENT = -1
"""Token id at the positions after the end of a predicted answer."""


@dataclass(frozen=True, kw_only=True)
class TextFeatures(Features):
    """Encoded input texts, and the answers to learn.

    The answer of row i is target_ids[target_starts[i] : target_starts[i + 1]], which is empty if
    the answer is not published.

    Attributes:
        target_ids: Token ids of all answers, including special tokens, concatenated.
        target_starts: Index in `target_ids` of each answer's first token, followed by the number of
            all tokens: `[rows + 1]`.
    """

    target_ids: NDArray[np.int32]
    target_starts: NDArray[np.int64]


class TextNetwork(nn.Module):
    """Encoder with its decoder, which returns losses in training and generated tokens otherwise.

    Args:
        encoder: Encoder that was loaded with its decoder.
        room: Maximum number of tokens of a generated answer, without the token that the decoder
            starts from.
    """

    reads_targets = True

    def __init__(self, encoder: Encoder, room: int) -> None:
        super().__init__()
        network: Any = encoder.network
        self.encoder = network
        config = encoder.config
        # Replace the network's own config, because its values would be used for all options that
        # are not set here: BART's config for summaries has four beams and a minimum length.
        network.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=room,
            do_sample=False,
            num_beams=1,
            pad_token_id=config.pad_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
        )
        self.room = room

    def forward(self, targets: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """Return losses if there are targets, else the token ids of generated answers.

        Args:
            targets: Token ids of the answers to learn, followed by IGNORED: `[rows, tokens]`.
            **inputs: Inputs of the encoder: `[rows, tokens]` each.

        Returns:
            With targets, the loss of each row in fp32, summed over the tokens of its target:
            `[rows]`. Without targets, the token ids of each row's answer as floats, followed by
            SILENT: `[rows, room]`. A row is NaN if the decoder has returned a NaN logit for it.
        """
        network: Any = self.encoder
        if targets is None:
            return self._say(**inputs)
        # Length of the longest target. To read it, the CPU has to wait for the device.
        width = int((targets != IGNORED).sum(-1).max())
        targets = targets[:, :width]
        said = network.prepare_decoder_input_ids_from_labels(targets)
        logits: Tensor = network(**inputs, decoder_input_ids=said, use_cache=False).logits.float()
        # (rows, tokens, vocabulary) -> (rows, vocabulary, tokens): cross_entropy expects the
        # classes in the second dimension.
        losses = functional.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
        )
        return losses.sum(-1)  # (rows, width) -> (rows,)

    def _say(self, **inputs: Tensor) -> Tensor:
        network: Any = self.encoder
        watch = _Watch()
        whole = network.generate(**inputs, logits_processor=LogitsProcessorList([watch]))
        ids = whole[:, 1:]  # (rows, tokens), without the token that the decoder starts from
        ends = (ids == network.config.eos_token_id).int()
        is_said = ends.cumsum(-1) - ends == 0  # up to and including the first end
        answer = ids.new_full((len(ids), self.room), SILENT)  # one width for all batches
        answer[:, : ids.shape[1]] = ids.where(is_said, SILENT)
        said: Tensor = answer.float().masked_fill(watch.is_lost[:, None], torch.nan)
        return said


class _Watch(LogitsProcessor):
    """Logits processor that records which rows had NaN logits; it does not change the logits."""

    def __init__(self) -> None:
        self.is_lost = torch.zeros(0, dtype=torch.bool)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        lost = scores.isnan().any(-1)  # (rows,)
        self.is_lost = self.is_lost.to(lost.device) | lost if len(self.is_lost) else lost
        return scores


def text_head(task: Task, tokenizer: Any, max_target_tokens: int) -> Head:
    """Return a head that answers the examples of a task with generated text.

    Args:
        task: Task that the head answers.
        tokenizer: Tokenizer with which the answers are encoded and decoded.
        max_target_tokens: Maximum number of tokens of an answer, including special tokens.

    Raises:
        BenchError: The examples of the task cannot be written as an input text and an answer text.
    """
    words = _Words(cast=cast_of(task), tokenizer=tokenizer, longest=max_target_tokens)
    return Head(
        encode=words.encode,
        targets=words.targets,
        network=words.network,
        loss=loss,
        decode=words.decode,
    )


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return `logits` unchanged, because the network returns one loss per row in training."""
    return logits


@dataclass(frozen=True, kw_only=True)
class _Words:
    """Functions of the text head.

    `cast` converts examples to texts and answers to predictions. `tokenizer` encodes the answers,
    which have at most `longest` tokens.
    """

    cast: Cast
    tokenizer: Any
    longest: int

    def encode(self, examples: Sequence[Any], tokenizer: Any, limits: Limits) -> TextFeatures:
        """Encode every row and its first answer, both cut at the end."""
        frame = Frame.of(tokenizer, texts=1)
        texts = [self.cast.words(example) for example in examples]
        ids = tokenize_ids(texts, tokenizer)
        room = limits.max_tokens - frame.size  # for the text, without special tokens
        answers = [self.cast.targets(example)[:1] for example in examples]
        known = self._rows([text for answer in answers for text in answer], frame)
        targets = [known[answer[0]] if answer else np.zeros(0, np.int32) for answer in answers]
        lengths = np.array([len(target) for target in targets], dtype=np.int64)  # (rows,)
        said = tokenize_ids([text for answer in answers for text in answer], self.tokenizer)
        cut = {text for text, found in said.items() if len(found) > self.longest - frame.size}
        return TextFeatures(
            **join([frame.row(ids[text][:room]) for text in texts], frame, limits.max_tokens),
            terms=lengths,
            target_ids=np.concatenate(targets),
            target_starts=np.cumsum([0, *lengths]),
            truncated=np.array(
                [
                    len(ids[text]) > room or bool(cut.intersection(answer))
                    for text, answer in zip(texts, answers, strict=True)
                ]
            ),
        )

    def _rows(self, answers: Sequence[str], frame: Frame) -> dict[str, Ids]:
        """Return each answer's tokens, cut at the end and with special tokens, keyed by text."""
        ids = tokenize_ids(answers, self.tokenizer)
        return {text: frame.row(ids[text][: self.longest - frame.size])[0] for text in ids}

    def targets(
        self, features: TextFeatures, examples: Sequence[Any], task: Task
    ) -> NDArray[np.int64]:
        """Return the target tokens of every row, `[rows, tokens]`, followed by IGNORED."""
        lengths = np.diff(features.target_starts)  # (rows,)
        if not lengths.all():
            hidden = examples[int(lengths.argmin())]
            raise DataError(
                f"the answer of example {hidden.id} in {task.name} is not published, so this "
                "example cannot be used for training."
            )
        columns = np.arange(lengths.max())  # (tokens,)
        places = features.target_starts[:-1, None] + columns  # (rows, tokens)
        is_target = columns < lengths[:, None]  # (rows, tokens)
        ids = features.target_ids[np.where(is_target, places, 0)]  # (rows, tokens)
        return np.where(is_target, ids, IGNORED).astype(np.int64)

    def network(self, encoder: Encoder, task: Task) -> TextNetwork:
        """Return the network of a task.

        If the possible answers are known, a prediction has at most one token more than the longest
        of them.
        """
        rows = self._rows(self.cast.answers, Frame.of(self.tokenizer, texts=1)).values()
        longest = 1 + max(map(len, rows)) if rows else self.longest
        return TextNetwork(encoder, min(longest, self.longest))

    def decode(
        self,
        logits: NDArray[np.float32],
        features: TextFeatures,
        examples: Sequence[Any],
        task: Task,
    ) -> tuple[Prediction, ...]:
        """Convert each generated answer to a prediction; the "logits" are its token ids."""
        said = [row[row != SILENT].tolist() for row in logits.astype(np.int64)]
        answers = self.tokenizer.batch_decode(
            said, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return tuple(
            self.cast.read(answer, example)
            for answer, example in zip(answers, examples, strict=True)
        )
