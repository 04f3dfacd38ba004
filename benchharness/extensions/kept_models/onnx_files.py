"""Write ONNX files of an exported model: in fp32, and in int8 for this machine's processor.

The files are made by `torch.onnx.export` and ONNX Runtime's quantizer. benchharness compares each
file with the original before the file gets its final name.
"""

import logging
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor

from benchharness.errors import BenchError, first_line
from benchharness.leaderboard.text import whole_file
from benchharness.machine import cpu_flags
from benchharness.recipes.classes import KINDS

ONNX = Path("onnx/model.onnx")
"""Path of the fp32 file in an exported folder, the same as in sentence-transformers and optimum."""

CLOSE = 1e-4
"""Largest accepted difference between a logit of the fp32 file and of the original model."""

REFUSED = frozenset({"funnel", "longformer"})
"""Model families that neither torch.export nor transformers.exporters can export."""

MOST_BYTES = 2**31
"""Maximum size, in bytes, of an ONNX file that contains its weights. It is a limit of protobuf."""

_TRACED, _TRIED = (3, 9, 14), ((5,), (40, 2, 11, 25), (1, 1))
"""Lengths, in words, of the rows for tracing (more than one row), and of the rows in each batch
that is compared.
"""


class Exported(NamedTuple):
    """An ONNX file of a model.

    Attributes:
        path: Path of the file.
        difference: Largest absolute difference between a logit of the file and of the model, on
            rows of random words.
    """

    path: Path
    difference: float


class OnnxNetwork:
    """An ONNX file that can be called like the transformers model from which it was made.

    It computes on one CPU thread.

    Args:
        path: The ONNX file.
        config: Config of the transformers model, which becomes the attribute `config`; None if this
            attribute is not needed.

    Raises:
        BenchError: ONNX Runtime is not installed or cannot load the file.
    """

    def __init__(self, path: Path, config: Any) -> None:
        runtime = _runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # log only errors
        self.config = config
        try:
            self._session = runtime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime has its own exception classes
            raise BenchError(f"ONNX Runtime cannot load {path}: {first_line(error)}") from error
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._outputs = [each.name for each in self._session.get_outputs()]

    def __call__(self, **inputs: Tensor) -> Any:
        """Compute the outputs, which are attributes of the result as in transformers.

        Args:
            inputs: Tensors, keyed by the name of the input, such as `input_ids`.
        """
        given = {name: inputs[name].numpy() for name in self._inputs}
        found = map(torch.from_numpy, self._session.run(None, given))
        return SimpleNamespace(**dict(zip(self._outputs, found, strict=True)))


def _runtime() -> Any:
    needed = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
    if needed:
        raise BenchError(
            f"ONNX files need {' and '.join(needed)}: run pip install 'benchharness[onnx]'."
        )
    return import_module("onnxruntime")  # the import takes a third of a second


def check_exportable(config: Any) -> None:
    """Raise BenchError if a model with this config cannot be exported to ONNX.

    BenchError is also raised if a library that the export needs is not installed.
    """
    _runtime()
    (name,) = config.architectures
    if config.model_type in REFUSED or not name.endswith(tuple(ENDINGS)):
        raise BenchError(f"{name} cannot be exported to ONNX: remove --onnx and --int8.")


ENDINGS = {f"For{name}": kind for kind, name in KINDS.items()} | {
    "ForQuestionAnsweringSimple": "span"
}
"""Types of heads, keyed by the end of the name of a transformers class, such as
"ForSequenceClassification"."""


def load_class(folder: Path) -> Any:
    """Load the model in a folder, with the transformers class that the folder's config names.

    The model is in evaluation mode, in fp32 and on the CPU.

    Raises:
        BenchError: transformers cannot load the folder.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        (name,) = config.architectures
        found = getattr(transformers, name).from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers may raise anything
        raise BenchError(f"transformers cannot load {folder}: {first_line(error)}") from error
    return found.eval()


def export(folder: Path, *, int8: bool = False) -> list[Exported]:
    """Write onnx/model.onnx to an exported folder, and optionally an int8 file.

    If a file cannot be written, an older file with the same name is kept.

    Args:
        folder: The exported folder.
        int8: True to write also an int8 file, which is made for the processor of this machine.

    Returns:
        The written files.

    Raises:
        BenchError: A library is not installed (the extra `onnx`), the model cannot be exported or
            has MOST_BYTES of weights or more, a logit of the fp32 file differs from the model's by
            more than CLOSE, or a logit of a file is not finite.
    """
    network = load_class(folder)
    check_exportable(network.config)
    size = sum(weight.numel() * weight.element_size() for weight in network.parameters())
    if size >= MOST_BYTES:
        raise BenchError(
            f"{folder} has {size / 1e9:.1f} GB of weights, but an ONNX file has at most 2.1 GB."
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with whole_file(folder / ONNX) as file:
        with _quiet():
            _trace(network, _inputs(network, tokenizer, _TRACED), Path(file.name))
        found = [_compared(network, tokenizer, Path(file.name), folder / ONNX, CLOSE)]
    if int8:
        target = folder / ONNX.with_name(f"model_qint8_{processor()}.onnx")
        with whole_file(target) as file:
            _quantize(folder / ONNX, Path(file.name))
            found.append(_compared(network, tokenizer, Path(file.name), target, np.inf))
    return found


def _trace(network: Any, inputs: Mapping[str, Tensor], path: Path) -> None:
    dynamic = torch.export.Dim.DYNAMIC
    network.config.return_dict = False
    try:
        made: Any = torch.onnx.export(
            network,
            (),
            kwargs=dict(inputs),
            input_names=[*inputs],
            output_names=_output_names(network.config),
            dynamic_shapes={
                name: dict.fromkeys(range(v.ndim), dynamic) for name, v in inputs.items()
            },
            dynamo=True,
            verbose=False,
        )
        # Each node records its stack trace, with local paths.
        for graph in (*made.model.graphs(), *made.model.functions.values()):
            for node in graph.all_nodes():
                node.metadata_props.clear()
        made.save(path, external_data=False)
    except Exception as error:  # torch, onnxscript and the model may raise anything
        name = type(network).__name__
        raise BenchError(
            f"{name} cannot be exported to ONNX by torch {torch.__version__} "
            f"({first_line(error)}): remove --onnx and --int8."
        ) from error
    finally:
        network.config.return_dict = True
        network.eval()


def head_type(config: Any) -> str:
    """Return the type of head, such as "pair", of the transformers class that a config names."""
    (name,) = config.architectures
    return next(kind for ending, kind in ENDINGS.items() if name.endswith(ending))


def _output_names(config: Any) -> list[str]:
    return ["start_logits", "end_logits"] if head_type(config) == "span" else ["logits"]


def _quantize(source: Path, target: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    with _quiet():
        quantization.quantize_dynamic(
            source,
            target,
            per_channel=True,  # 22 of 872 SST-2 predictions change; 34 without this option
            weight_type=quantization.QuantType.QInt8,
            # Sums of two products overflow 16 bits on processors without VNNI.
            reduce_range=processor() in ("avx2", "avx512"),
        )


def processor() -> str:
    """Return the type of this machine's processor, such as "avx512_vnni" or "arm64".

    It is part of the name of an int8 file. The library optimum uses the same names.
    """
    flags = cpu_flags()
    for name in ("avx512_vnni", "avx_vnni", "avx512f", "avx2"):
        if name in flags:
            return name.removesuffix("f")
    machine = platform.machine().lower()
    return "arm64" if machine in ("arm64", "aarch64") else machine


# Create rows of random words for tracing and comparing.


def _inputs(network: Any, tokenizer: Any, words: Sequence[int]) -> dict[str, Tensor]:
    """Return a batch with one row of random words per number in `words`.

    For a multiple-choice task, the batch has two questions with these rows as options.
    """
    kind, draws = head_type(network.config), np.random.default_rng(len(words))
    vocabulary = sorted(tokenizer.get_vocab())
    texts = [" ".join(draws.choice(vocabulary, count)) for count in words]
    columns = [texts] if kind == "tag" else [texts, texts[::-1]]
    rows = tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
    names = [name for name in tokenizer.model_input_names if name in rows]
    if kind == "choice":
        return {name: torch.stack([rows[name], rows[name].flip(0)]) for name in names}
    return {name: rows[name] for name in names}


def _compared(network: Any, tokenizer: Any, draft: Path, target: Path, most: float) -> Exported:
    """Compare a file's logits with the original's; raise BenchError if they differ too much."""
    other, worst = OnnxNetwork(draft, network.config), 0.0
    for words in _TRIED:
        inputs = _inputs(network, tokenizer, words)
        with torch.inference_mode():
            wanted = network(**inputs)
        found = other(**inputs)
        is_real = inputs["attention_mask"].bool()
        for name in _output_names(network.config):
            gap = (getattr(wanted, name) - getattr(found, name)).abs()
            worst = max(
                worst, float((gap[is_real] if gap.shape[:2] == is_real.shape else gap).max())
            )
    if not worst <= most or not np.isfinite(worst):
        raise BenchError(
            f"{target.name} was not written, because its logits differ from the model's by up to "
            f"{worst:.2g}."
        )
    return Exported(target, worst)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log messages and warnings of exporters about optional packages and signatures."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
