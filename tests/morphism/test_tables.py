"""The paper's Tables III and VII, to all their printed digits (ResNet-50 v1, 224×224, 1000 classes).

Errata of the paper. The tests expect the values that follow from Tables I and II:

- Table III prints softmax 2.10E04 and average pooling 1.00E05. Table I's own weights give 1000 · (8 + 1 + 4) = 1.30E04,
  and 2048 · 49 additions with 2048 divisions of 4 = 1.085E05.
- Table II charges every convolution for the gradient of its input. Table III's 1.5235E10 leaves it out for the first
  convolution, which reads the image. With it the figure would be 1.5471E10.
- The update of the weights is charged per image, though it happens once a step (+0.2 %).
- Table VII prints a ratio of 1.9533 where Table III has 1.9531, and 1.9534E16 / 1.0002E16 is 1.9531.
"""

import pytest

from morphism import Convolution, LayerCost, Map, cost, layer_cost, start

TRAINING_IMAGES = 1_281_167
VALIDATION_IMAGES = 50_000

TABLE_III = [
    # layer                  forward       backward      ratio
    ("convolution", "7.7119e+09", "1.5235e+10", "1.9755"),
    ("dense", "4.0960e+06", "1.2290e+07", "3.0005"),
    ("batch_normalisation", "7.4110e+07", "1.9080e+03", "0.0000"),
    ("relu", "9.0819e+06", "0.0000e+00", "0.0000"),
    ("add", "5.5194e+06", "0.0000e+00", "0.0000"),
    ("max_pooling", "1.8063e+06", "0.0000e+00", "0.0000"),
    ("average_pooling", "1.0854e+05", "0.0000e+00", "0.0000"),  # printed: 1.00E05
    ("softmax", "1.3000e+04", "0.0000e+00", "0.0000"),  # printed: 2.10E04
]


@pytest.mark.parametrize(("kind", "forward", "backward", "ratio"), TABLE_III)
def test_table_iii_by_layer(kind: str, forward: str, backward: str, ratio: str) -> None:
    layer = cost(start("resnet50_v1")).by_kind[kind]

    assert f"{layer.forward_flops:.4e}" == forward
    assert f"{layer.backward_flops:.4e}" == backward
    assert f"{layer.backward_flops / layer.forward_flops:.4f}" == ratio


def test_table_iii_total() -> None:
    counted = cost(start("resnet50_v1"))

    assert f"{counted.forward_flops:.4e}" == "7.8066e+09"
    assert f"{counted.backward_flops:.4e}" == "1.5247e+10"
    assert f"{counted.backward_flops / counted.forward_flops:.4f}" == "1.9531"
    assert f"{counted.training_flops:.4e}" == "2.3053e+10"


def test_table_vii() -> None:
    counted = cost(start("resnet50_v1"))

    assert f"{TRAINING_IMAGES * counted.forward_flops:.4e}" == "1.0002e+16"
    assert f"{TRAINING_IMAGES * counted.backward_flops:.4e}" == "1.9534e+16"
    assert f"{VALIDATION_IMAGES * counted.forward_validation_flops:.4e}" == "3.9033e+14"
    assert f"{counted.epoch_flops(TRAINING_IMAGES, VALIDATION_IMAGES):.4e}" == "2.9926e+16"


def test_v1_5_moves_the_stride_and_costs_more() -> None:
    counted = cost(start("resnet50_v1_5"))

    assert f"{counted.by_kind['convolution'].forward_flops:.4e}" == "8.1743e+09"
    assert f"{counted.training_flops:.4e}" == "2.4445e+10"


def test_both_have_the_parameters_that_torchvision_states() -> None:
    assert cost(start("resnet50_v1")).parameters == cost(start("resnet50_v1_5")).parameters == 25_557_032
    assert cost(start("resnet18")).parameters == 11_689_512


def test_the_first_convolution_needs_no_gradient_of_the_image() -> None:
    first = layer_cost(Convolution(64, 7, 2, 3), (Map(3, 224, 224),), Map(64, 112, 112), reads_image=True)
    inner = layer_cost(Convolution(64, 7, 2, 3), (Map(3, 224, 224),), Map(64, 112, 112))

    assert first == LayerCost(236_027_904, 236_027_904, 236_046_720, 236_027_904, 236_027_904, 9_408)
    assert inner.backward_flops - first.backward_flops == first.forward_flops
