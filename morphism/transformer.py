"""Transformers: the block that starting graphs repeat and that a Deepen inserts, and the language models made of blocks."""

from morphism import ops
from morphism.graph import Graph, Node, once_per_graph

NODES_OF_BLOCK = 6


@once_per_graph
def residuals(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the operations that a sum adds to the residual stream, ascending."""
    return tuple([index for index, node in enumerate(graph.nodes) if isinstance(node.op, ops.Residual)])


@once_per_graph
def ends_of_blocks(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the sums that read a GatedMlp, ascending."""
    return tuple(
        [
            index
            for index, node in enumerate(graph.nodes)
            if isinstance(node.op, ops.Add)
            and any(isinstance(graph.nodes[entering].op, ops.GatedMlp) for entering in node.inputs)
        ]
    )


def sizes_at(graph: Graph, index: int) -> tuple[ops.Attention, ops.GatedMlp] | None:
    """Return the operations of the block that ends at a node or before it, or of the first block. None without blocks."""
    attentions, mlps = (
        [each for each in residuals(graph) if isinstance(graph.nodes[each].op, kind)]
        for kind in (ops.Attention, ops.GatedMlp)
    )
    if not attentions or not mlps:
        return None
    attention, mlp = (
        graph.nodes[max((each for each in every if each <= index), default=every[0])].op for every in (attentions, mlps)
    )
    assert isinstance(attention, ops.Attention) and isinstance(mlp, ops.GatedMlp)
    return attention, mlp


def block(folder: str, reads: int, begin: int, attention: ops.Attention, mlp: ops.GatedMlp) -> tuple[Node, ...]:
    """Return the nodes of a pre-norm block, named '<folder>.norm1' and so on.

    `reads`: index of the node that it reads, with tokens as output. `begin`: index that its first node will have.
    """
    return (
        Node(f"{folder}.norm1", ops.RmsNorm(), (reads,)),
        Node(f"{folder}.attention", attention, (begin,)),
        Node(f"{folder}.add1", ops.Add(), (reads, begin + 1)),
        Node(f"{folder}.norm2", ops.RmsNorm(), (begin + 2,)),
        Node(f"{folder}.mlp", mlp, (begin + 3,)),
        Node(f"{folder}.add2", ops.Add(), (begin + 2, begin + 4)),
    )


def language_model(
    tokens: ops.TokenInput, features: int, blocks: int, attention: ops.Attention, mlp: ops.GatedMlp
) -> Graph:
    """Return a decoder-only language model: embedding, blocks, a last norm and a head of its own weights."""
    nodes = [Node("tokens", tokens), Node("embedding", ops.Embedding(features), (0,))]
    for number in range(1, blocks + 1):
        nodes += block(f"block{number}", len(nodes) - 1, len(nodes), attention, mlp)
    last = len(nodes)
    return Graph(
        (
            *nodes,
            Node("head.norm", ops.RmsNorm(), (last - 1,)),
            Node("head.dense", ops.Dense(tokens.vocabulary), (last,)),
            Node("head.softmax", ops.Softmax(), (last + 1,)),
        )
    )
