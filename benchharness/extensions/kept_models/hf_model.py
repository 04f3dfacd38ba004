"""Run an exported model with transformers alone, from texts to logits.

benchharness's own code only selects the texts of an example, so the results show what the files of
a folder compute without benchharness.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchharness.encoder.padding import SEES_PADDING
from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.heads import Limits
from benchharness.heads.choice import filled
from benchharness.heads.tokens import SURROGATES
from benchharness.models.folder import FIRST, MEAN, POOLINGS, stated_pooling
from benchharness.tasks.examples import (
    ChoiceExample,
    PairExample,
    SpanExample,
    TagExample,
)
from benchharness.tasks.task import Task
from benchharness.training.batching import Indices, length_batches
from benchharness.training.predict import PREDICTION_TOKENS

Row = dict[str, list[int]]
"""Token sequence without padding: its "input_ids" and, if the tokenizer returns token types, its
"token_type_ids"."""

Logits = NDArray[np.float32]

OFFLINE: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Options for loading a folder with transformers: nothing is downloaded, no third-party code runs,
and the user is asked nothing."""


@dataclass(frozen=True, kw_only=True)
class PlainModel:
    """A model that was loaded by a transformers class, with its tokenizer.

    Attributes:
        network: Model of transformers, or an ONNX file that is called in the same way.
        tokenizer: Tokenizer of transformers.
        kind: Type of the head, such as "pair" or "span"; "text" for a text-to-text model.
        pooling: Method by which a retrieval model turns the states of tokens into the vector of a
            text; empty for other models.
    """

    network: Any
    tokenizer: Any
    kind: str
    pooling: str = ""

    @classmethod
    def load(cls, folder: Path, auto_class: str, kind: str) -> "PlainModel":
        """Load a folder with transformers.

        Args:
            folder: Folder in transformers' format.
            auto_class: Name of the transformers class, such as "AutoModelForQuestionAnswering".
            kind: Type of the head; see `PlainModel`.

        Raises:
            KeyError: The weights do not match the class.
        """
        network, said = getattr(transformers, auto_class).from_pretrained(
            folder, output_loading_info=True, **OFFLINE
        )
        names = ("missing_keys", "unexpected_keys", "mismatched_keys")
        if wrong := [str(key) for name in names for key in said[name]]:
            raise KeyError(f"the weights do not match {type(network).__name__}: {min(wrong)}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **OFFLINE)
        pooling = POOLINGS.get(stated_pooling(folder), "")
        return cls(network=network, tokenizer=tokenizer, kind=kind, pooling=pooling)

    def rows(self, task: Task, example: Any, limits: Limits) -> list[Row]:
        """Tokenize an example.

        Args:
            task: Task of the example.
            example: Example to tokenize.
            limits: Maximum lengths, and the stride of windows.

        Returns:
            The token sequences that the model reads for the example: one, or one per option of a
            multiple-choice question, window of a long text, or text of a retrieval pair.
        """
        if self.kind == "text":
            return self._encoded(cast_of(task).words(example), truncation=True)
        made: dict[str, Callable[[Any, Limits], list[Row]]] = {
            "pair": self._of_pair,
            "choice": self._of_choice,
            "tag": self._of_tags,
            "span": self._of_span,
            "ranking": self._of_ranking,
        }
        return made[self.kind](example, limits)

    def _of_pair(self, example: PairExample, _: Limits) -> list[Row]:
        texts = (text for text in (example.text_a, example.text_b) if text is not None)
        return self._encoded(*texts, truncation=True)

    def _of_choice(self, example: ChoiceExample, _: Limits) -> list[Row]:
        asked = (filled(example.question, option) for option in example.options)
        pairs = ((example.context, text) for text in asked)
        return [r for pair in pairs for r in self._encoded(*pair, truncation="only_first")]

    def _of_tags(self, example: TagExample, limits: Limits) -> list[Row]:
        room = limits.max_tokens - self.tokenizer.num_special_tokens_to_add()
        return self._windows(" ".join(example.words), room=room, step=max(1, room // 2))

    def _of_span(self, example: SpanExample, limits: Limits) -> list[Row]:
        question, tokenizer = example.question, self.tokenizer
        asked_ids = tokenizer(_readable(question), add_special_tokens=False)["input_ids"]
        room = limits.max_tokens - tokenizer.num_special_tokens_to_add(pair=True) - len(asked_ids)
        return self._windows(question, example.context, room=room, step=min(limits.stride, room))

    def _of_ranking(self, example: Any, _: Limits) -> list[Row]:
        texts = (example.text, example.corpus.text(example.positive))
        return [row for text in texts for row in self._encoded(text, truncation=True)]

    def has_room(self, example: ChoiceExample) -> bool:
        """Return whether at least one token of the context fits into the row of each option."""
        room = self.tokenizer.model_max_length - self.tokenizer.num_special_tokens_to_add(pair=True)
        tails = [_readable(filled(example.question, option)) for option in example.options]
        return all(
            len(ids) < room for ids in self.tokenizer(tails, add_special_tokens=False)["input_ids"]
        )

    def _windows(self, *texts: str, room: int, step: int) -> list[Row]:
        """Return windows of the last text: a window of `room` tokens starts every `step` tokens."""
        cut = "only_second" if len(texts) > 1 else True
        return self._encoded(
            *texts, truncation=cut, stride=room - step, return_overflowing_tokens=True
        )

    def _encoded(self, *texts: str, **options: Any) -> list[Row]:
        found = self.tokenizer(*map(_readable, texts), **options)
        names = [name for name in ("input_ids", "token_type_ids") if name in found]
        if not options.get("return_overflowing_tokens"):
            return [{name: found[name] for name in names}]
        return [{n: found[n][row] for n in names} for row in range(len(found["input_ids"]))]

    def batches(self, rows: Sequence[Row]) -> list[Indices]:
        """Divide token sequences into batches, and return the indices of each batch's rows.

        The rows of a batch have similar lengths. If padding changes the results of the model
        family, each batch is a single row.
        """
        if self.network.config.model_type in SEES_PADDING:
            return [np.array([row]) for row in range(len(rows))]
        lengths = np.array([len(row["input_ids"]) for row in rows])
        return length_batches(lengths, PREDICTION_TOKENS["cpu"])

    def decodable(self, rows: Sequence[Row]) -> Logits:
        """Return the logits of all rows as one array, as the `decode` of a head expects them.

        The shape is `[rows, outputs]` for texts and pairs of texts, `[rows]` for options, and
        `[tokens of all rows, outputs]` for spans and tags.
        """
        found = self.logits(rows, self.batches(rows))
        return np.stack(found) if self.kind == "pair" else np.concatenate(found)

    def logits(self, rows: Sequence[Row], batches: Iterable[Indices]) -> list[Logits]:
        """Return the logits of each row: `[outputs]`, or `[tokens, outputs]` for spans and tags.

        For a text-to-text model, these are the logits of the first token of the answer. For a
        retrieval model, they are the vector of the text.

        Args:
            rows: Token sequences.
            batches: Indices of the rows in each batch. A batch is padded to its longest row.
        """
        found: dict[int, Logits] = {}
        for batch in batches:
            inputs = self.padded([rows[number] for number in batch])
            with torch.inference_mode():
                outputs = self._ask(inputs).float()
            mask = inputs["attention_mask"].bool()
            for number, row, is_token in zip(batch.tolist(), outputs, mask, strict=True):
                per_token = self.kind in ("span", "tag")
                found[number] = (row[: len(is_token)][is_token] if per_token else row).numpy()
        return [found[number] for number in range(len(rows))]

    def _ask(self, inputs: Mapping[str, Tensor]) -> Tensor:
        if self.kind == "choice":  # (1, options, tokens) -> (1, options) -> (options, 1)
            given = {name: values[None] for name, values in inputs.items()}
            return self.network(**given).logits.T  # type: ignore[no-any-return]
        if self.kind == "text":
            start = torch.full((len(inputs["input_ids"]), 1), self._start)
            return self.network(**inputs, decoder_input_ids=start).logits[:, 0]  # type: ignore[no-any-return]
        outputs = self.network(**inputs)
        if self.kind == "ranking":
            return self._vectors(outputs.last_hidden_state, inputs["attention_mask"])
        if self.kind == "span":
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        return outputs.logits  # type: ignore[no-any-return]

    def _vectors(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return unit vectors `[rows, size]`, pooled from states `[rows, tokens, size]`."""
        weights = mask.to(states.dtype)
        if self.pooling != MEAN:
            place = 0 if self.pooling == FIRST else mask.sum(1, keepdim=True) - 1
            weights = (torch.arange(mask.shape[1]) == place).expand(mask.shape).to(states.dtype)
        return functional.normalize(torch.einsum("rts,rt->rs", states, weights), dim=-1)

    @property
    def _start(self) -> int:
        return int(self.network.config.decoder_start_token_id)

    def answers(self, rows: Sequence[Row], batches: Iterable[Indices]) -> list[str]:
        """Return the text that a text-to-text model generates for each row.

        Args:
            rows: Token sequences.
            batches: Indices of the rows in each batch.
        """
        found: dict[int, str] = {}
        for batch in batches:
            said = self.network.generate(**self.padded([rows[number] for number in batch]))
            texts = self.tokenizer.batch_decode(said, skip_special_tokens=True)
            found |= zip(batch.tolist(), texts, strict=True)
        return [found[number] for number in range(len(rows))]

    def padded(self, rows: Sequence[Row]) -> Mapping[str, Tensor]:
        """Pad rows to a batch, and return its tensors, keyed by input such as "input_ids"."""
        names = rows[0].keys()
        columns = {name: [row[name] for row in rows] for name in names}
        found: Mapping[str, Tensor] = self.tokenizer.pad(columns, return_tensors="pt", padding=True)
        return dict(found)


def _readable(text: str) -> str:
    return SURROGATES.sub("\ufffd", text)  # tokenizers refuse lone surrogates
