"""Neural networks as graphs, changes (morphs) that grow them without changing their function, and their operation counts.

It needs only the standard library and imports in milliseconds. Drawings are in `morphism.draw`, which is not imported here.
"""

from morphism.apply import (
    Divide,
    Enlarge,
    Extend,
    Fill,
    Gather,
    Identity,
    Instruction,
    RandomTensor,
    WeightPlan,
    ZeroTensor,
    apply,
)
from morphism.architecture import (
    IMAGE_STARTS,
    STARTS,
    TOKEN_STARTS,
    Architecture,
    UnknownStart,
    cost_of,
    decode_architecture,
    encode_architecture,
    rebuilt,
    start,
    start_of,
)
from morphism.codec import DamagedGraphFile, decode, encode, load
from morphism.cost import KINDS, Cost, LayerCost, cost, layer_cost
from morphism.detector import DETECTORS, Detector
from morphism.graph import Graph, Node
from morphism.grow import GRAPHS_REMEMBERED, IllegalMorph, Lineage, grow, rebuild
from morphism.legal import Budget, LegalMorphs, choices, legal
from morphism.morphs import JSON, DamagedMorph, Deepen, Heads, Kernel, Morph, Skip, Widen, decode_morph, encode_morph
from morphism.ops import (
    BATCH_NORMALISATION_EPSILON,
    BATCH_NORMALISATION_MOMENTUM,
    Add,
    Attention,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Dropout,
    Embedding,
    GatedMlp,
    GlobalAveragePooling,
    IllegalGraph,
    Input,
    MaxPooling,
    Op,
    Relu,
    RmsNorm,
    Softmax,
    TokenInput,
)
from morphism.shapes import Map, Shape, TokenNumbers, Tokens, Vector, channels_of
from morphism.sites import unreached, useful_kernels
