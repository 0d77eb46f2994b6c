"""Classes of GPU kernels and CPU operators, and kinds of layers, found by name in the table kernel_names.json.

A row has a regular expression for names of torch's operators (`aten::…`) and of kernels on accelerators. The first row that is
found in a name decides. `below` restricts a row to operators that another operator calls. The classes are those of HPC AI500's
Figure 6 and `framework`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

CONVOLUTION, ALL_REDUCE, FRAMEWORK = "convolution", "all-reduce", "framework"
PAPER_CLASSES = (
    CONVOLUTION,
    "GEMM",
    "batch normalisation",
    "element-wise",
    "pooling",
    "memcpy",
    ALL_REDUCE,
    "data arrangement",
)
"""Classes in the order of Figure 6."""
OTHER = "other"
CLASSES = (*PAPER_CLASSES, FRAMEWORK, OTHER)
"""All classes. Only traces of processors have a `framework`: dispatch, allocation, and time between operators."""


class _Row(msgspec.Struct, rename={"kernel_class": "class", "layer_kind": "kind"}, forbid_unknown_fields=True):
    kernel_class: str
    names: str
    layer_kind: str | None = None
    below: str | None = None


@cache
def _table() -> list[_Row]:
    text = files("aiperf.train.tracing").joinpath("kernel_names.json").read_bytes()
    return msgspec.json.decode(text, type=list[_Row])


@cache
def _row(name: str, caller: str) -> _Row | None:
    for row in _table():
        if re.search(row.names, name) and (row.below is None or re.search(row.below, caller)):
            return row
    return None


def kernel_class(name: str, caller: str = "") -> str:
    """Return the class of a GPU kernel or torch operator, one of CLASSES. It is 'other' for an unknown name.

    >>> kernel_class("aten::mkldnn_convolution"), kernel_class("sm80_xmma_gemm_bf16bf16"), kernel_class("unheard_of")
    ('convolution', 'GEMM', 'other')
    """
    row = _row(name, caller)
    return OTHER if row is None else row.kernel_class


def layer_kind(name: str) -> str | None:
    """None if it computes no layer by itself, or for an unknown name."""
    row = _row(name, "")
    return None if row is None else row.layer_kind
