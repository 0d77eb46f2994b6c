"""Properties of the regression: never singular, less variance near observations, correct on observations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_info

from searchers.distance import Array
from searchers.gaussian import Hyperparameters, _cholesky, normalised, one_blas_thread, posterior

NOWHERE = np.zeros((0, 3))


def places(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0, 1, (count, 3))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 1 + 1e-13]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30),
    st.integers(0, 20),
)
def test_duplicates_ties_and_open_trials_leave_it_regular(results: list[tuple[float, float]], pending: int) -> None:
    finished = np.array([[place, place, 0.0] for place, _ in results]).reshape(len(results), 3)
    accuracies = np.array([accuracy for _, accuracy in results], dtype=np.float64)

    believed = posterior(finished, accuracies, np.full((pending, 3), 0.5))

    assert np.isfinite(believed.upper_bound(places(5), 2.0)).all()


def test_equal_results_predict_equal_values() -> None:
    believed = posterior(places(20), np.full(20, 0.7), NOWHERE)

    assert believed.upper_bound(places(50, 1), 0.0) == pytest.approx(np.zeros(50))


def test_the_mean_follows_the_observations() -> None:
    seen = places(200)
    accuracies = np.sin(3 * seen[:, 0]) + seen[:, 1]
    ahead = places(50, 1)

    expected = posterior(seen, accuracies, NOWHERE).upper_bound(ahead, 0.0)

    truth = np.sin(3 * ahead[:, 0]) + ahead[:, 1]
    assert np.corrcoef(expected, truth)[0, 1] > 0.98


def test_it_agrees_with_regression_written_out_by_hand() -> None:
    seen, ahead = places(30), places(7, 1)
    accuracies = np.cos(5 * seen[:, 0])
    believed = posterior(seen, accuracies, NOWHERE)
    length, slope, noise = (getattr(believed.hyperparameters, name) for name in ("length", "slope", "noise"))

    def kernel(a: Array, b: Array) -> Array:
        squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(1 / (1 + squares / (2 * length**2)) + slope * a @ b.T, dtype=np.float64)

    inverse = np.linalg.inv(kernel(seen, seen) + noise * np.eye(30))
    mean = kernel(ahead, seen) @ inverse @ normalised(accuracies)
    variance = np.diag(kernel(ahead, ahead) - kernel(ahead, seen) @ inverse @ kernel(seen, ahead))

    assert believed.upper_bound(ahead, 0.0) == pytest.approx(mean)
    assert believed.upper_bound(ahead, 1.5) == pytest.approx(mean + 1.5 * np.sqrt(variance))


def test_a_trial_without_result_lowers_only_the_variance() -> None:
    seen, accuracies, ahead = places(40), np.arange(40) / 40, 1.5 + places(10, 1)

    alone = posterior(seen, accuracies, NOWHERE)
    crowded = posterior(seen, accuracies, ahead[:1])

    assert crowded.upper_bound(ahead, 0.0) == pytest.approx(alone.upper_bound(ahead, 0.0))
    deviation_alone = alone.upper_bound(ahead, 1.0) - alone.upper_bound(ahead, 0.0)
    deviation_crowded = crowded.upper_bound(ahead, 1.0) - crowded.upper_bound(ahead, 0.0)
    assert (deviation_crowded <= deviation_alone + 1e-12).all()
    assert deviation_crowded[0] < deviation_alone[0] - 0.01


def test_with_no_result_at_all_it_is_only_curious() -> None:
    believed = posterior(NOWHERE, np.zeros(0), NOWHERE)

    assert (believed.upper_bound(places(4), 1.0) == 0).all()
    crowded = posterior(NOWHERE, np.zeros(0), places(3))
    assert (crowded.upper_bound(places(4), 0.0) == 0).all()


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0.1, 10), st.floats(-3, 3))
def test_normalised_results_keep_order_and_ignore_scale(results: list[float], scale: float, shift: float) -> None:
    results_seen: Array = np.array([round(result, 4) for result in results], dtype=np.float64)

    scores = normalised(results_seen)

    assert scores == pytest.approx(normalised(np.asarray(scale * results_seen + shift, dtype=np.float64)), abs=1e-6)
    assert (np.diff(scores[np.argsort(results_seen, kind="stable")]) >= -1e-9).all()
    assert (np.abs(scores) <= 3).all()


def test_one_wild_result_does_not_drown_the_rest() -> None:
    results_seen = np.array([0.90, 0.91, 0.92, 0.93, 0.0])

    scores = normalised(results_seen)

    assert scores[3] - scores[0] > 1
    assert scores[4] == -3


def test_linear_algebra_uses_one_thread_and_restores_the_limit() -> None:
    def threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert set(threads()) == {1}
    assert threads() == before


def covariance(left: Array, right: Array, by: Hyperparameters) -> Array:
    """As the regression had it before it spared itself copies."""
    squares = left @ right.T
    squares *= -2.0
    squares += (left * left).sum(axis=1)[:, None]
    squares += (right * right).sum(axis=1)[None, :]
    squares = np.maximum(squares, 0.0) * (0.5 / (by.length * by.length)) + 1.0
    return np.asarray(np.reciprocal(squares) + by.slope * (left @ right.T), dtype=np.float64)


@pytest.mark.parametrize(("finished", "pending"), [(1, 0), (2, 1), (31, 2), (33, 64), (150, 7), (300, 250)])
def test_in_place_arithmetic_is_bitwise_equal(finished: int, pending: int) -> None:
    seen = places(finished + pending)
    results = np.sin(3 * seen[:finished, 0])
    believed = posterior(seen[:finished], results, seen[finished:])

    with one_blas_thread():
        plain = covariance(seen, seen, believed.hyperparameters)
        plain[np.diag_indices_from(plain)] += believed.hyperparameters.noise
        factor = cholesky(plain, lower=True)
        weights = solve_triangular(factor[:finished, :finished], normalised(results), lower=True)
        ahead = places(40, 1)
        solved = solve_triangular(factor, covariance(seen, ahead, believed.hyperparameters), lower=True)
    own = 1.0 + believed.hyperparameters.slope * (ahead * ahead).sum(axis=1)
    bound = weights @ solved[:finished] + 2.0 * np.sqrt(np.maximum(own - (solved * solved).sum(axis=0), 0.0))

    assert np.array_equal(believed.factor, factor)
    assert np.array_equal(believed.weights, weights)
    assert np.array_equal(believed.upper_bound(ahead, 2.0), bound)


def test_a_matrix_that_is_no_covariance_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"positive definite\. This one of 3 rows is not, at 2"):
        _cholesky(np.asfortranarray(np.diag([1.0, -1.0, 1.0])))
