"""The rules of docs/benchmark.md, each with one edit that breaks it and the tests that must see it (break_rules.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and how it is broken."""

    what: str
    file: str
    before: str
    """Stands there exactly once."""
    after: str
    tests: tuple[str, ...]
    """Node ids; one that fails has seen the rule broken."""

    @property
    def edit(self) -> str:
        """In one line: what differs."""
        return f"{' '.join(self.before.split())} → {' '.join(self.after.split())}".replace("|", "/")


COST = ("tests/morphism/test_cost.py::test_each_layer_costs_what_tables_i_and_ii_say",)
TABLES = ("tests/morphism/test_tables.py::test_table_iii_by_layer",)
LAWS = "tests/rules/test_rules.py::"
FRESH = "tests/rules/test_fresh_observations.py::"
SCORE = "tests/accounting/test_score.py::"
SPENT = "tests/accounting/test_time_breakdown.py::"
TRAIN = "tests/train/test_training_law.py::"
RANKED = ("tests/ranking/test_ranking.py::test_each_rule_is_broken_alone_and_says_what_was_found_and_what_fixes_it",)
EVEN = (
    "tests/accounting/test_reference_score.py::test_both_agree_on_the_interval_of_batches_of_workers_and_of_too_few_of_either",
)
ROUNDS = (
    LAWS + "test_rounds_of_the_ranking_schedule_lengthen_as_the_paper_and_the_predecessor_say",
    LAWS + "test_a_trial_stops_when_its_loss_has_not_fallen_by_a_thousandth_for_its_rounds_patience",
)
TOLD = (LAWS + "test_the_search_is_told_where_the_curve_is_at_epoch_15_however_long_the_trial_was",)
LIKE = (LAWS + "test_what_a_trial_does_after_the_epochs_that_every_round_has_changes_nothing_of_what_is_told",)
FITTED = (LAWS + "test_the_prediction_is_the_least_squares_fit_with_a_ceiling_of_1_and_a_gain_that_is_none_or_more",)
LINES = (SPENT + "test_every_line_holds_the_time_that_was_really_spent_so",)
KEPT = ("tests/morphism/test_morphs.py::test_every_legal_morph_preserves_the_function",)
TUNING = "tests/searchers/test_tuning.py::"

OPERATIONS = (
    Rule(
        "convolution: 2·K²·Ci·Ho·Wo·Co forward",
        "morphism/cost.py",
        "            forward = 2 * weights * output.height * output.width\n",
        "            forward = 1 * weights * output.height * output.width\n",
        COST,
    ),
    Rule(
        "convolution: channels of one group enter",
        "morphism/cost.py",
        "(entering.channels // op.groups) * output.channels",
        "entering.channels * output.channels",
        COST,
    ),
    Rule(
        "convolution: the update is charged",
        "morphism/cost.py",
        "return LayerCost(forward, forward, gradients + 2 * weights, forward, gradients, weights)",
        "return LayerCost(forward, forward, gradients, forward, gradients, weights)",
        COST,
    ),
    Rule(
        "the convolution that reads the image needs no gradient of it",
        "morphism/cost.py",
        "output.width\n            gradients = forward if reads_image else 2 * forward",
        "output.width\n            gradients = 2 * forward",
        TABLES,
    ),
    Rule(
        "dense: 2·(Ci + 1)·Co for the update",
        "morphism/cost.py",
        "parameters = (entering.features + 1) * op.out_features",
        "parameters = entering.features * op.out_features",
        COST,
    ),
    Rule(
        "batch normalisation: 7 an element",
        "morphism/cost.py",
        "forward = 7 * output.elements",
        "forward = 6 * output.elements",
        COST,
    ),
    Rule(
        "batch normalisation: 36 a layer, however large",
        "morphism/cost.py",
        "return LayerCost(forward, forward, 36, 0, 0, 2 * output.channels)",
        "return LayerCost(forward, forward, 36 * output.elements, 0, 0, 2 * output.channels)",
        COST,
    ),
    Rule(
        "ReLU, add: 1 an output element",
        "morphism/cost.py",
        "            elements = output.elements\n            return LayerCost(elements, elements)",
        "            elements = 0\n            return LayerCost(elements, elements)",
        COST,
    ),
    Rule(
        "max-pooling: K² an output element",
        "morphism/cost.py",
        "forward = op.kernel * op.kernel * output.elements",
        "forward = (op.kernel * op.kernel - 1) * output.elements",
        COST,
    ),
    Rule(
        "global average pooling: 4 a channel for the division",
        "morphism/cost.py",
        "forward = inputs[0].elements + 4 * output.elements",
        "forward = inputs[0].elements + output.elements",
        COST,
    ),
    Rule(
        "average pooling: K² + 4 an output element",
        "morphism/cost.py",
        "forward = (op.kernel * op.kernel + 4) * output.elements",
        "forward = op.kernel * op.kernel * output.elements",
        COST,
    ),
    Rule(
        "softmax: 13 a class",
        "morphism/cost.py",
        "forward = 13 * output.elements",
        "forward = 21 * output.elements",
        COST,
    ),
    Rule(
        "concat: 0",
        "morphism/cost.py",
        "        case Concat() | Input():\n            return LayerCost()",
        "        case Concat() | Input():\n            return LayerCost(output.elements)",
        COST,
    ),
    Rule(
        "dropout: 2 an element in training, 0 in validation",
        "morphism/cost.py",
        "return LayerCost(2 * output.elements, 0)",
        "return LayerCost(2 * output.elements, 2 * output.elements)",
        ("tests/morphism/test_cost.py::test_dropout_works_in_training_and_not_in_evaluation",),
    ),
    Rule(
        "an operation that the counter does not know is an error",
        "morphism/cost.py",
        "            return LayerCost()\n        case _:\n            assert_never(op)",
        "            return LayerCost()\n        case _:\n            return LayerCost()",
        ("tests/morphism/test_cost.py::test_an_operation_that_the_counter_does_not_know_is_an_error_and_never_zero",),
    ),
    Rule(
        "a validation image counts its forward operations",
        "aiperf/accounting/work_log.py",
        "training * operations.training + validation * operations.validation",
        "training * operations.training + validation * operations.training",
        (SCORE + "test_the_score_is_the_work_inside_the_window_over_its_length",),
    ),
    Rule(
        "the last, partial batch of a validation counts with the images it has",
        "aiperf/train/loop.py",
        "None, batch.count, False)",
        "None, ready.batch, False)",
        ("tests/train/test_loop.py::test_every_image_of_every_whole_step_is_counted_once",),
    ),
    Rule(
        "the second count has no updates",
        "morphism/cost.py",
        "return LayerCost(forward, forward, gradients + 2 * weights, forward, gradients, weights)",
        "return LayerCost(forward, forward, gradients + 2 * weights, forward, gradients + 2 * weights, weights)",
        ("tests/morphism/test_cost.py::test_the_tensor_count_is_convolutions_and_products_alone_without_updates",),
    ),
)

SCORES = (
    Rule(
        "the valid window begins where the warm-up ends",
        "aiperf/accounting/score.py",
        "return Window(work_log.started.warmup_seconds, min(end, work_log.started.duration_seconds))",
        "return Window(0.0, min(end, work_log.started.duration_seconds))",
        (SCORE + "test_the_score_is_the_work_inside_the_window_over_its_length",),
    ),
    Rule(
        "the valid window ends with the declared length at the latest",
        "aiperf/accounting/score.py",
        "return Window(work_log.started.warmup_seconds, min(end, work_log.started.duration_seconds))",
        "return Window(work_log.started.warmup_seconds, end)",
        (SCORE + "test_an_interval_that_straddles_an_edge_counts_in_proportion",),
    ),
    Rule(
        "a straddling interval counts by its part inside",
        "aiperf/accounting/windows.py",
        "return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)",
        "return np.where(length > 0, (overlap > 0).astype(np.float64), moment)",
        (SCORE + "test_an_interval_that_straddles_an_edge_counts_in_proportion",),
    ),
    Rule(
        "an interval without length counts where it lies",
        "aiperf/accounting/windows.py",
        "np.where(length > 0, length, 1.0), moment)",
        "np.where(length > 0, length, 1.0), 0.0)",
        (SCORE + "test_an_interval_without_length_counts_where_it_lies",),
    ),
    Rule(
        "error: never below 1/(2 · validation images)",
        "aiperf/accounting/score.py",
        '1.0 / (2 * int(work_log.started.dataset["validation_images"]))',
        "1e-9",
        (SCORE + "test_the_error_is_never_below_half_an_image_and_undefined_before_an_evaluation",),
    ),
    Rule(
        "regulated score: −ln(error) × score",
        "aiperf/accounting/score.py",
        "return -math.log(error) * flops_per_second",
        "return -math.log10(error) * flops_per_second",
        (SCORE + "test_the_regulated_score_follows_equation_3",),
    ),
    Rule(
        "95 % interval: a batch is at least four trials long",
        "aiperf/accounting/confidence.py",
        "TRIALS_A_BATCH = 4",
        "TRIALS_A_BATCH = 1",
        EVEN,
    ),
    Rule(
        "95 % interval: at most ten batches",
        "aiperf/accounting/confidence.py",
        "MOST_BATCHES = 10",
        "MOST_BATCHES = 40",
        EVEN,
    ),
    Rule(
        "95 % interval: Student's t",
        "aiperf/accounting/confidence.py",
        "stdtrit(freedom, 0.975)",
        "stdtrit(freedom, 0.95)",
        EVEN,
    ),
    Rule(
        "95 % interval: steady growth is no chance",
        "aiperf/accounting/confidence.py",
        "        freedom = size - 2\n",
        "        freedom = size - 1\n",
        EVEN,
    ),
    Rule(
        "95 % interval: none where the driver was down",
        "aiperf/accounting/confidence.py",
        "    if down_seconds > 0:\n",
        "    if down_seconds < 0:\n",
        ("tests/accounting/test_confidence.py::test_a_run_whose_driver_was_down_has_no_interval_and_says_why",),
    ),
    Rule(
        "95 % interval: workers are the sample only where all were there throughout",
        "aiperf/accounting/confidence.py",
        "all(_is_there_throughout(one, inside) for one in there)",
        "True",
        ("tests/accounting/test_confidence.py::test_workers_are_no_sample_where_one_came_or_went_in_the_window",),
    ),
    Rule(
        "busy time: over the most accelerators ever present at once",
        "aiperf/accounting/score.py",
        "    whole = capacity(work_log) * inside.seconds\n    return work(",
        "    whole = sum((each.left or inside.end) - each.joined for each in work_log.presences) * 2\n    return work(",
        (SPENT + "test_the_busy_share_is_busy_time_over_all_the_accelerators_there_ever_were_for_the_whole_window",),
    ),
    Rule(
        "busy time: taken for all ranks of the worker",
        "aiperf/accounting/score.py",
        "work(rows.busy * rows.ranks, rows, inside)",
        "work(rows.busy, rows, inside)",
        (SPENT + "test_the_busy_share_is_busy_time_over_all_the_accelerators_there_ever_were_for_the_whole_window",),
    ),
    Rule(
        "wasted work: an epoch begun again after a loss counts once",
        "aiperf/accounting/work_log.py",
        "            opened.done_again[epoch] = attempt\n            self._waste(opened, epoch)",
        "            opened.done_again[epoch] = attempt",
        (SCORE + "test_an_epoch_done_again_after_a_loss_counts_once_and_its_first_part_is_wasted",),
    ),
    Rule(
        "wasted work: an epoch begun again with a smaller batch counts once",
        "aiperf/accounting/work_log.py",
        "                opened = self._open[event.trial]\n                self._waste(opened, opened.epoch)",
        "                opened = self._open[event.trial]",
        (SCORE + "test_an_epoch_begun_again_with_a_smaller_batch_counts_once",),
    ),
    Rule(
        "downtime stands beside the score",
        "aiperf/accounting/work_log.py",
        "self.down_seconds += event.down_seconds",
        "self.down_seconds += 0.0",
        (SCORE + "test_the_time_a_killed_driver_was_down_stays_in_the_denominator",),
    ),
    Rule(
        "a worker speaks every max(5 s, workers/50 s)",
        "aiperf/rules/limits.py",
        "max(limits.progress_seconds, workers / limits.progress_per_second)",
        "limits.progress_seconds",
        (LAWS + "test_a_worker_speaks_every_5_seconds_and_less_often_where_there_are_more_than_250",),
    ),
)

TIME_BREAKDOWN = (
    Rule(
        "time breakdown: training is busy less communication and validation",
        "aiperf/accounting/time_breakdown.py",
        "busy - communication - validation",
        "busy - communication",
        LINES,
    ),
    Rule(
        "time breakdown: communication has its own clock",
        "aiperf/accounting/time_breakdown.py",
        '"communication": communication,',
        '"communication": 0.0,',
        LINES,
    ),
    Rule(
        "time breakdown: validation has its own clock",
        "aiperf/accounting/time_breakdown.py",
        '"validation": validation,',
        '"validation": 0.0,',
        LINES,
    ),
    Rule(
        "time breakdown: input has its own clock",
        "aiperf/accounting/time_breakdown.py",
        '"input": seconds(columns.input)',
        '"input": seconds(columns.checkpoint)',
        LINES,
    ),
    Rule(
        "time breakdown: checkpoint has its own clock",
        "aiperf/accounting/time_breakdown.py",
        '"checkpoint": seconds(columns.checkpoint)',
        '"checkpoint": 0.0',
        LINES,
    ),
    Rule(
        "time breakdown: start is from the order to the weights",
        "aiperf/accounting/time_breakdown.py",
        "started += part * (1.0 - compiling)",
        "started += part",
        LINES,
    ),
    Rule(
        "time breakdown: compile has its own clock",
        "aiperf/accounting/time_breakdown.py",
        "compiled += part * compiling",
        "compiled += 0.0",
        LINES,
    ),
    Rule(
        "time breakdown: gap is a worker without a trial",
        "aiperf/accounting/work_log.py",
        'self.idle_spans.append(IdleSpan("gap", presence.worker, presence.ranks, presence.free_since, event.at))',
        "pass",
        LINES,
    ),
    Rule(
        "time breakdown: lost is from an attempt's last word to its loss",
        "aiperf/accounting/work_log.py",
        'self.idle_spans.append(IdleSpan("lost", presence.worker, presence.ranks, opened.worked, since))',
        "pass",
        LINES,
    ),
    Rule(
        "time breakdown: absent is the whole less those present",
        "aiperf/accounting/time_breakdown.py",
        '"absent": whole - present',
        '"absent": 0.0',
        LINES,
    ),
)

PROCEDURE = (
    Rule("rounds: 15, 30, 45, 60 epochs", "aiperf/rules/limits.py", "[15, 30, 45, 60]", "[10, 30, 45, 60]", ROUNDS),
    Rule("rounds: 60 epochs from round 4 on", "aiperf/rules/limits.py", "[15, 30, 45, 60]", "[15, 30, 45, 75]", ROUNDS),
    Rule(
        "patience: 6 in round 1",
        "aiperf/rules/limits.py",
        "    patience: int = field(default=6,",
        "    patience: int = field(default=1,",
        ROUNDS,
    ),
    Rule(
        "patience: 2 more each round",
        "aiperf/rules/limits.py",
        "patience_step: int = field(default=2,",
        "patience_step: int = field(default=1,",
        ROUNDS,
    ),
    Rule(
        "patience: 20 at most",
        "aiperf/rules/limits.py",
        "largest_patience: int = field(default=20,",
        "largest_patience: int = field(default=1,",
        ROUNDS,
    ),
    Rule(
        "improvement: 0.001",
        "aiperf/rules/limits.py",
        "improvement: float = field(default=0.001,",
        "improvement: float = field(default=0.01,",
        ROUNDS,
    ),
    Rule(
        "patience grows with the round, in the function",
        "aiperf/rules/procedure.py",
        "schedule.patience + schedule.patience_step * (round_ - 1)",
        "schedule.patience + schedule.patience_step * round_",
        ROUNDS,
    ),
    Rule(
        "an improvement is one by 0.001 under the best",
        "aiperf/rules/procedure.py",
        "if loss < best - improvement:",
        "if loss < best:",
        ROUNDS,
    ),
    Rule(
        "warm-up rounds: 3",
        "aiperf/rules/limits.py",
        "warmup_rounds: int = field(default=3,",
        "warmup_rounds: int = field(default=9,",
        (LAWS + "test_ranking_runs_tune_from_round_4_batches_up_to_a_twentieth_of_a_ranks_images",),
    ),
    Rule(
        "a worker's round is the trials it began, attempts not counted anew",
        "aiperf/rules/changes/attempts.py",
        "    if trial.state is TrialState.WAITING:\n        if event.round is not None:\n",
        "    worker.round += 1\n    if trial.state is TrialState.WAITING:\n        if event.round is not None:\n",
        (
            "tests/rules/test_decisions.py::test_a_lost_trial_goes_on_after_its_last_saved_epoch_and_its_round_is_not_counted_anew",
            LAWS + "test_in_a_run_a_round_is_a_trial_and_an_attempt_is_none",
        ),
    ),
    Rule(
        "a spare is a trial of the round in which it is trained",
        "aiperf/rules/decide.py",
        "commands.append(Start(run.next_of(there), 1, worker, 1, there.round + 1))",
        "commands.append(Start(run.next_of(there), 1, worker, 1, run.trials[run.next_of(there)].round))",
        (FRESH + "test_a_spare_is_trained_at_once_as_its_workers_next_round_and_only_then_is_another_asked_for",),
    ),
    Rule(
        "a proposal is asked for when its worker's trial nears its end",
        "aiperf/rules/procedure.py",
        "return epochs >= still and has_stopped_improving(losses, still - 1, schedule.improvement)",
        "return True",
        (FRESH + "test_no_proposal_is_asked_for_before_the_epoch_after_which_a_trial_may_be_over",),
    ),
    Rule(
        "a spare is asked for only when a trial of the run has finished",
        "aiperf/rules/state.py",
        "(self.limits.spares if self.finished else 0)",
        "self.limits.spares",
        (FRESH + "test_a_spare_is_asked_for_once_a_trial_of_the_run_has_finished_and_not_before",),
    ),
    Rule(
        "the proposal that was asked for last is trained first",
        "aiperf/rules/state.py",
        "else worker.waiting[-1]",
        "else worker.waiting[0]",
        (FRESH + "test_the_proposal_that_was_asked_for_last_is_trained_first_and_the_other_stays_the_spare",),
    ),
    Rule(
        "the search is told the fitted curve, and not its best epoch",
        "aiperf/rules/procedure.py",
        "return max(seen) if fitted is None else min(1.0, max(0.0, fitted))",
        "return max(seen)",
        (LAWS + "test_noise_of_one_epoch_is_not_told_as_a_result",),
    ),
    Rule(
        "the curve is read at the last epoch of round 1",
        "aiperf/rules/procedure.py",
        "predicted_accuracy(seen, schedule.epochs[0])",
        "predicted_accuracy(seen, schedule.epochs[-1])",
        TOLD,
    ),
    Rule(
        "trials of all rounds are looked at for the same epochs",
        "aiperf/rules/procedure.py",
        "seen = accuracies[: schedule.epochs[0]]",
        "seen = accuracies",
        LIKE,
    ),
    Rule(
        "a prediction takes 5 epochs",
        "aiperf/rules/procedure.py",
        "if len(accuracies) < 5:",
        "if len(accuracies) < 3:",
        (LAWS + "test_a_curve_takes_5_epochs_and_with_fewer_the_best_seen_is_told",),
    ),
    Rule(
        "prediction: c ≤ 1", "aiperf/rules/procedure.py", "    if ceiling > 1.0:\n", "    if ceiling > 9.0:\n", FITTED
    ),
    Rule("prediction: a ≥ 0", "aiperf/rules/procedure.py", "    if gain < 0.0:\n", "    if gain < -9.0:\n", FITTED),
    Rule(
        "prediction: least squares over the whole curve",
        "aiperf/rules/procedure.py",
        "exponent = min(exponents, key=lambda b: _fit(curve, b)[0])",
        "exponent = exponents[20]",
        FITTED + TOLD,
    ),
    Rule(
        "no architecture is trained twice",
        "aiperf/rules/proposals.py",
        "if (holder := history.holder(graph.fingerprint)) is not None:",
        "if (holder := history.holder(graph.fingerprint)) is not None and False:",
        (
            "tests/rules/test_proposals.py::test_an_architecture_that_is_another_trials_is_rejected_and_the_trial_is_named",
        ),
    ),
    Rule(
        "at most 16 parents",
        "searchers/history.py",
        "PARENTS: Final = 16",
        "PARENTS: Final = 17",
        (LAWS + "test_the_16_best_trials_can_be_parents",),
    ),
    Rule(
        "the starting network's proposal is itself",
        "searchers/propose.py",
        "parent, morphs = (None, ()) if is_start else searcher.propose(history, request)",
        "parent, morphs = searcher.propose(history, request)",
        (
            "tests/searchers/test_searchers.py::test_proposal_0_is_the_starting_graph_and_those_before_any_result_grow_from_it",
        ),
    ),
)

MORPHS = (
    Rule(
        "deepen: a 3×3 convolution that is the identity",
        "morphism/apply.py",
        'Identity(f"{conv}.weight", (channels, channels, 3, 3))',
        'Zero(f"{conv}.weight", (channels, channels, 3, 3))',
        KEPT,
    ),
    Rule(
        "deepen: γ takes back what the normalisation divides by",
        "morphism/apply.py",
        "(1.0 + BATCH_NORMALISATION_EPSILON) ** 0.5",
        "1.1",
        KEPT,
    ),
    Rule(
        "widen: copies are divided so that sums stay",
        "morphism/apply.py",
        '        plan.append(Divide(f"{node.name}.weight", 1, counts[entering]))\n',
        "",
        KEPT,
    ),
    Rule(
        "skip: γ = 0",
        "morphism/apply.py",
        'Zero(f"{norm}.weight", (joined,))',
        'Fill(f"{norm}.weight", (joined,), 1.0)',
        KEPT,
    ),
    Rule(
        "skip: the branch's convolution is not zero, or it would never learn",
        "morphism/apply.py",
        'Fresh(f"{conv}.weight", (joined, entering, 1, 1), fan_in=entering, ordinal=0)',
        'Zero(f"{conv}.weight", (joined, entering, 1, 1))',
        (
            "tests/morphism/test_morphs.py::test_a_skip_branch_is_1x1_with_stride_where_maps_shrink_and_begins_at_nothing",
        ),
    ),
    Rule(
        "skip: over at most 6 ReLUs",
        "morphism/sites.py",
        "LONGEST_SKIP = 6",
        "LONGEST_SKIP = 8",
        (LAWS + "test_a_skip_spans_6_relus_at_most_and_a_kernel_grows_to_7",),
    ),
    Rule(
        "kernel: up to 7×7",
        "morphism/sites.py",
        "LARGEST_GROWN_KERNEL = 7",
        "LARGEST_GROWN_KERNEL = 9",
        (LAWS + "test_a_skip_spans_6_relus_at_most_and_a_kernel_grows_to_7",),
    ),
    Rule(
        "kernel: every weight of it reaches a pixel",
        "morphism/sites.py",
        "        if _reaches(graph, index, kernel, op.padding + (kernel - op.kernel) // 2):",
        "        if True:",
        ("tests/morphism/test_morphs.py::test_a_kernel_may_grow_as_far_as_every_weight_reaches_a_pixel",),
    ),
    Rule(
        "deepen: not where maps are one pixel wide",
        "morphism/sites.py",
        "    return min(shape.height, shape.width) > 1\n",
        "    return True\n",
        ("tests/morphism/test_morphs.py::test_nothing_that_is_offered_adds_a_weight_that_reaches_no_pixel",),
    ),
    Rule(
        "a proposal with weights that reach no pixel is rejected",
        "aiperf/rules/proposals.py",
        "    if idle:\n",
        "    if False:\n",
        ("tests/rules/test_proposals.py::test_a_wrong_proposal_is_rejected_though_lawful_ones_are_remembered",),
    ),
    Rule(
        "parents can grow",
        "searchers/history.py",
        "if number not in self._dropped and self.trials[number].can_grow:",
        "if number not in self._dropped:",
        ("tests/searchers/test_history.py::test_a_network_that_cannot_grow_is_nobodys_parent_however_good_it_is",),
    ),
    Rule(
        "the search goes on from parents while one has a new child",
        "searchers/growth.py",
        "        morphs = grown_at_random(history, parent, 1, random)\n",
        "        morphs = None\n",
        (
            "tests/searchers/test_searchers.py::test_where_all_that_was_drawn_is_known_the_search_goes_on_from_its_best_parent_with_a_new_child",
        ),
    ),
    Rule(
        "weights are kept of the best that can grow",
        "aiperf/rules/changes/checkpoints.py",
        "    if trial.can_grow:\n        heapq",
        "    if True:\n        heapq",
        (
            "tests/rules/test_decisions.py::test_checkpoints_of_trials_that_cannot_grow_are_dropped_but_the_best_of_them",
        ),
    ),
    Rule(
        "a child inherits its parent's trained weights",
        "aiperf/train/setup.py",
        "        if order.parent is None:\n            ancestor = build(parent)",
        "        if True:\n            ancestor = build(parent)",
        ("tests/train/test_loop.py::test_a_child_begins_with_its_parents_weights",),
    ),
    Rule(
        "noise of 1e-3 of the tensor's RMS parts the copies",
        "aiperf/train/symmetry_noise.py",
        "relative: float = 1e-3",
        "relative: float = 1e-2",
        (TRAIN + "test_copies_of_a_channel_part_by_a_thousandth_of_the_tensors_rms_unless_told_otherwise",),
    ),
)

BUDGET_AND_TUNING = (
    Rule(
        "budget: 4 × the start's operations and parameters",
        "aiperf/config.py",
        "    factor: float = field(default=4.0,",
        "    factor: float = field(default=5.0,",
        (LAWS + "test_networks_may_grow_to_four_times_the_start_within_nine_tenths_of_the_memory_at_batch_32",),
    ),
    Rule(
        "budget: parameters too",
        "morphism/legal.py",
        "int(factor * start.forward_flops), int(factor * start.parameters)",
        "int(factor * start.forward_flops), int(2 * factor * start.parameters)",
        (LAWS + "test_networks_may_grow_to_four_times_the_start_within_nine_tenths_of_the_memory_at_batch_32",),
    ),
    Rule(
        "budget: 90 % of the smallest accelerator's memory",
        "aiperf/config.py",
        "memory_share: float = field(default=0.9,",
        "memory_share: float = field(default=1.0,",
        (LAWS + "test_networks_may_grow_to_four_times_the_start_within_nine_tenths_of_the_memory_at_batch_32",),
    ),
    Rule(
        "budget: memory at batch 32",
        "aiperf/config.py",
        "    batch: int = field(default=32,",
        "    batch: int = field(default=16,",
        (LAWS + "test_networks_may_grow_to_four_times_the_start_within_nine_tenths_of_the_memory_at_batch_32",),
    ),
    Rule(
        "a proposal over the budget is rejected",
        "aiperf/rules/proposals.py",
        "if not history.space.budget.allows(counted):",
        "if False:",
        ("tests/rules/test_proposals.py::test_what_one_budget_allows_is_rejected_under_a_smaller_one",),
    ),
    Rule(
        "TPE from round 4 on",
        "aiperf/planning/plan.py",
        "tuning_from_round=conf.schedule.warmup_rounds + 1",
        "tuning_from_round=conf.schedule.warmup_rounds + 2",
        (LAWS + "test_ranking_runs_tune_from_round_4_batches_up_to_a_twentieth_of_a_ranks_images",),
    ),
    Rule(
        "no tuning before it",
        "searchers/propose.py",
        "request.round < space.tuning_from_round",
        "request.round < 1",
        (TUNING + "test_rounds_before_tuning_take_the_default_and_leave_the_kernels",),
    ),
    Rule(
        "kernel size: odd, up to 7",
        "searchers/kernel_size.py",
        "LARGEST: Final = 7",
        "LARGEST: Final = 9",
        (LAWS + "test_tuned_kernels_are_odd_from_the_parents_size_to_7_on_all_but_the_images_convolution",),
    ),
    Rule(
        "kernel size: not of the convolution that reads the image",
        "searchers/kernel_size.py",
        "node.op.kernel % 2 and not reads_image",
        "node.op.kernel % 2",
        (LAWS + "test_tuned_kernels_are_odd_from_the_parents_size_to_7_on_all_but_the_images_convolution",),
    ),
    Rule(
        "kernel size: from the parent's on",
        "searchers/tpe.py",
        "        if own is not None and size < own:",
        "        if False:",
        (TUNING + "test_a_childs_kernels_begin_at_its_parents_size",),
    ),
    Rule(
        "kernel size: none over the budget is drawn",
        "searchers/tpe.py",
        "            if not history.space.budget.allows(cost(enlarged)):\n",
        "            if False:\n",
        (TUNING + "test_no_kernel_is_drawn_that_would_be_over_the_budget",),
    ),
    Rule(
        "kernel size: none is chosen whose network is taken",
        "searchers/tpe.py",
        "            if history.is_taken(enlarged.fingerprint):\n",
        "            if False:\n",
        (TUNING + "test_a_size_whose_network_is_taken_is_not_chosen",),
    ),
    Rule(
        "kernel size: as far as the maps let it",
        "searchers/kernel_size.py",
        "    return useful[-1] if useful else op.kernel\n",
        "    return LARGEST\n",
        (TUNING + "test_the_own_size_of_a_network_is_the_tuned_one_however_small_its_last_maps_are",),
    ),
    Rule(
        "tuning is told the network's own kernel size",
        "searchers/tpe.py",
        "sizes = history.batch_size(number), history.own_kernel(number)",
        "sizes = history.batch_size(number), history.trials[number].kernel_size",
        (TUNING + "test_a_tuned_trial_is_told_with_its_networks_own_kernel_and_none_is_left_out",),
    ),
    Rule(
        "tuning is told in the order of the proposals",
        "searchers/tpe.py",
        "4 * number + how",
        "10**9 * how + number",
        (TUNING + "test_trials_are_told_in_the_order_of_their_proposals_whatever_became_of_them",),
    ),
    Rule(
        "growth is not credited with what the sizes gave",
        "searchers/residual.py",
        "np.column_stack([grown, _sizes(history, numbers)])",
        "grown.copy()",
        (TUNING + "test_growth_is_not_credited_with_what_a_batch_that_rose_with_it_gave",),
    ),
    Rule(
        "tuning is told what growth does not explain",
        "searchers/tpe.py",
        "values = residuals(history, finished)",
        "values = history.accuracies",
        (TUNING + "test_the_value_that_is_told_is_the_residual",),
    ),
    Rule(
        "divergence and memory are told to tuning",
        "searchers/history.py",
        'OF_HYPERPARAMETERS: Final = frozenset({"divergence", "memory"})',
        "OF_HYPERPARAMETERS: Final[frozenset[str]] = frozenset()",
        (TUNING + "test_sizes_that_diverge_or_fit_at_no_batch_are_avoided_afterwards",),
    ),
    Rule(
        "a machine's failures are not",
        "searchers/history.py",
        'OF_HYPERPARAMETERS: Final = frozenset({"divergence", "memory"})',
        'OF_HYPERPARAMETERS: Final = frozenset({"divergence", "memory", "machine"})',
        ("tests/searchers/test_history.py::test_only_failures_by_the_hyperparameters_own_are_kept_for_tuning",),
    ),
    Rule(
        "batch size: steps of 8",
        "searchers/tpe.py",
        "BATCH_STEP: Final = 8",
        "BATCH_STEP: Final = 4",
        (LAWS + "test_in_a_run_batches_are_the_default_before_round_4_and_tuned_in_steps_of_8_from_it_on",),
    ),
    Rule(
        "batch size: at most training images / (20 · ranks)",
        "aiperf/train/batch_sizes.py",
        "training_images // (STEPS * ranks)",
        "training_images // (STEPS // 2 * ranks)",
        (LAWS + "test_ranking_runs_tune_from_round_4_batches_up_to_a_twentieth_of_a_ranks_images",),
    ),
    Rule(
        "batch size: at most the measured ceiling",
        "searchers/tpe.py",
        "highest = space.largest_batch_size if history.ceiling is None else min(history.ceiling, space.largest_batch_size)",
        "highest = space.largest_batch_size",
        (TUNING + "test_batches_go_from_the_smallest_to_the_ceiling_or_the_largest_in_steps_of_8",),
    ),
    Rule(
        "batch size: half of the largest at the least",
        "searchers/tpe.py",
        "SMALLEST_SHARE: Final = 2",
        "SMALLEST_SHARE: Final = 4",
        (
            TUNING
            + "test_where_no_smallest_batch_is_said_tuning_goes_down_to_half_of_the_largest_and_at_most_to_the_default",
        ),
    ),
    Rule(
        "batch size: no smallest is configured",
        "aiperf/config.py",
        "    smallest: int | None = field(default=None,",
        "    smallest: int | None = field(default=8,",
        (LAWS + "test_ranking_runs_tune_from_round_4_batches_up_to_a_twentieth_of_a_ranks_images",),
    ),
    Rule(
        "batch before round 4: 448 in the ranking schedule",
        "conf/schedule/ranking.yaml",
        "  default: 448",
        "  default: 256",
        (LAWS + "test_ranking_runs_tune_from_round_4_batches_up_to_a_twentieth_of_a_ranks_images",),
    ),
    Rule(
        "batch before round 4: 64 otherwise",
        "aiperf/config.py",
        "    default: int = field(default=64,",
        "    default: int = field(default=32,",
        (LAWS + "test_in_a_run_batches_are_the_default_before_round_4_and_tuned_in_steps_of_8_from_it_on",),
    ),
    Rule(
        "batch before round 4: bounded by the ceiling",
        "searchers/propose.py",
        "min(space.default_batch_size, history.ceiling)",
        "space.default_batch_size",
        (TUNING + "test_a_measured_ceiling_holds_for_the_default_too",),
    ),
    Rule(
        "out of memory: three quarters of the batch",
        "aiperf/train/batch_sizes.py",
        "batch * 3 // 4 // LEAST * LEAST",
        "batch // 2 // LEAST * LEAST",
        ("tests/rules/test_procedure.py::test_worked_numbers_in_docstrings_are_true",),
    ),
    Rule(
        "out of memory is a pruned point",
        "searchers/history.py",
        "self._pruned.append((number, point))",
        "pass",
        ("tests/searchers/test_history.py::test_a_batch_that_shrank_is_known_and_its_point_is_pruned",),
    ),
)

TRAINING = (
    Rule(
        "SGD: momentum 0.9",
        "aiperf/train/trainer_config.py",
        "momentum: float = field(default=0.9,",
        "momentum: float = field(default=0.8,",
        (TRAIN + "test_a_ranking_run_trains_by_sgd_with_momentum_09_and_weight_decay_5e_5",),
    ),
    Rule(
        "SGD: the momentum is used",
        "aiperf/train/optimiser.py",
        "        momentum=conf.momentum,\n",
        "",
        (TRAIN + "test_a_ranking_run_trains_by_sgd_with_momentum_09_and_weight_decay_5e_5",),
    ),
    Rule(
        "weight decay 5e-5",
        "aiperf/train/trainer_config.py",
        "weight_decay: float = field(default=5e-5,",
        "weight_decay: float = field(default=1e-4,",
        (TRAIN + "test_a_ranking_run_trains_by_sgd_with_momentum_09_and_weight_decay_5e_5",),
    ),
    Rule(
        "learning rate 0.1",
        "aiperf/train/trainer_config.py",
        "learning_rate: float = field(default=0.1,",
        "learning_rate: float = field(default=0.2,",
        (TRAIN + "test_the_learning_rate_of_a_ranking_run_falls_from_a_tenth_in_a_line_that_ends_after_60_epochs",),
    ),
    Rule(
        "learning rate: falls over 60 epochs",
        "aiperf/train/trainer_config.py",
        "decay_epochs: int | None = field(default=60,",
        "decay_epochs: int | None = field(default=90,",
        (TRAIN + "test_the_learning_rate_of_a_ranking_run_falls_from_a_tenth_in_a_line_that_ends_after_60_epochs",),
    ),
    Rule(
        "learning rate: scaling is off",
        "aiperf/train/trainer_config.py",
        "scale_learning_rate: bool = False",
        "scale_learning_rate: bool = True",
        (TRAIN + "test_the_learning_rate_of_a_ranking_run_falls_from_a_tenth_in_a_line_that_ends_after_60_epochs",),
    ),
    Rule(
        "label smoothing 0.1",
        "aiperf/train/trainer_config.py",
        "label_smoothing: float = field(default=0.1,",
        "label_smoothing: float = field(default=0.0,",
        (TRAIN + "test_the_training_loss_smooths_labels_by_a_tenth_and_the_validation_loss_not_at_all",),
    ),
    Rule(
        "label smoothing is used",
        "aiperf/train/loop.py",
        ", label_smoothing=context.conf.label_smoothing)",
        ")",
        (TRAIN + "test_the_training_loss_smooths_labels_by_a_tenth_and_the_validation_loss_not_at_all",),
    ),
    Rule(
        "He initialisation",
        "aiperf/train/initialise.py",
        "sqrt(2.0 / fan_in)",
        "sqrt(1.0 / fan_in)",
        (
            "tests/train/test_initialise.py::test_convolutions_are_he_normal_dense_layers_small_and_normalisation_the_identity",
        ),
    ),
    Rule(
        "precision is 16-bit float or more, with FP32 master weights",
        "aiperf/train/trainer_config.py",
        'PrecisionChoice = Literal["auto", "fp32", "tf32", "bf16", "fp16"]',
        'PrecisionChoice = Literal["auto", "fp32", "tf32", "bf16", "fp16", "fp8"]',
        ("tests/train/test_trainer_rules.py::test_an_impossible_choice_is_refused_by_name_with_what_was_found",),
    ),
    Rule(
        "ImageNet: crops of 8–100 %",
        "aiperf/data/crops.py",
        "_AREA = (0.08, 1.0)",
        "_AREA = (0.25, 1.0)",
        ("tests/data/test_pixels.py::test_resized_crops_cover_areas_of_8_to_100_percent_evenly",),
    ),
    Rule(
        "ImageNet: flipped half of the time",
        "aiperf/data/crops.py",
        "is_mirrored = u[-1] < 0.5",
        "is_mirrored = u[-1] < 0.0",
        ("tests/data/test_pixels.py::test_resized_crops_cover_areas_of_8_to_100_percent_evenly",),
    ),
    Rule(
        "ImageNet: validation on the centre 224 of a shorter side of 256",
        "aiperf/data/opening.py",
        "CentreCrop(224 / 256 if conf.is_resized_crop else 1.0)",
        "CentreCrop(1.0)",
        (TRAIN + "test_imagenet_is_validated_on_the_centre_224_of_a_shorter_side_of_256",),
    ),
    Rule(
        "CIFAR-10: pad 4, crop",
        "aiperf/data/opening.py",
        "conf.image // 8",
        "conf.image // 16",
        (TRAIN + "test_imagenet_is_trained_on_resized_crops_and_small_images_on_shifts_by_an_eighth",),
    ),
    Rule(
        "CIFAR-10: flip",
        "aiperf/data/crops.py",
        "places[:, 1], (u[:, 2] < 0.5)",
        "places[:, 1], (u[:, 2] < 0.0)",
        ("tests/data/test_pixels.py::test_shifts_reach_every_place_and_mirror_half",),
    ),
)

RANKING_FILE = "aiperf/ranking/divisions/ranking.yaml"
BREACHES = "aiperf/ranking/breaches.py"
RANKING = (
    Rule(
        "ranking: all of ImageNet",
        RANKING_FILE,
        "has: {name: imagenet, training_images: 1281167,",
        "has: {name: imagenet,",
        RANKED,
    ),
    Rule(
        "ranking: from resnet50_v1",
        RANKING_FILE,
        "law: {equals: resnet50_v1}",
        "law: {one_of: [resnet50_v1, resnet50_v1_5]}",
        RANKED,
    ),
    Rule(
        "ranking: network morphism",
        RANKING_FILE,
        "law: {one_of: [morphism]}",
        "law: {one_of: [morphism, random]}",
        RANKED,
    ),
    Rule(
        "ranking: a window of 1 h",
        RANKING_FILE,
        "fact: window_seconds\n    law: {at_least: 3600}",
        "fact: window_seconds\n    law: {at_least: 36}",
        RANKED,
    ),
    Rule(
        "ranking: warm-up of 1 h",
        RANKING_FILE,
        "fact: warmup_seconds\n    law: {at_least: 3600}",
        "fact: warmup_seconds\n    law: {at_least: 360}",
        RANKED,
    ),
    Rule(
        "ranking: the length is run to its end",
        RANKING_FILE,
        "law: {equals: duration}",
        "law: {one_of: [duration, interrupted]}",
        RANKED,
    ),
    Rule(
        "ranking: nothing is taken back",
        RANKING_FILE,
        "fact: rolled_back_lines\n    law: {equals: 0}",
        "fact: rolled_back_lines\n    law: {at_most: 9}",
        RANKED,
    ),
    Rule(
        "ranking: 16-bit float or more",
        RANKING_FILE,
        "law: {one_of: [fp32, tf32, bf16, fp16]}",
        "law: {one_of: [fp32, tf32, bf16, fp16, fp8]}",
        RANKED,
    ),
    Rule(
        "ranking: an error of 30 % at most",
        RANKING_FILE,
        "law: {at_most: 0.30}",
        "law: {at_most: 0.35}",
        RANKED,
    ),
    Rule(
        "ranking: MFU of 100 % at most",
        RANKING_FILE,
        "law: {at_most: 1.0}",
        "law: {at_most: 1.1}",
        RANKED,
    ),
    Rule(
        "ranking: a tenth of the nodes excluded at most",
        RANKING_FILE,
        "law: {all_of: [{at_most: 0.1}, {at_most: {option: preflight.most_excluded}}]}",
        "law: {at_most: 0.2}",
        RANKED,
    ),
    Rule(
        "ranking: what cannot be determined is no pass",
        BREACHES,
        '        return _outcome(rule, "unknown", why_missing(run, name), line)',
        '        return Judgement(rule, "kept")',
        RANKED,
    ),
    Rule(
        "ranking: an option that a journal does not say is unknown",
        BREACHES,
        '        return _outcome(rule, "unknown", "this journal does not say", line=1, remedy="a run of this release")',
        '        return Judgement(rule, "kept")',
        ("tests/ranking/test_ranking.py::test_an_option_that_a_journal_does_not_say_is_unknown_and_no_pass",),
    ),
    Rule(
        "ranking: options are held to their values",
        BREACHES,
        "    if rule.law.holds(told[rule.option], told):",
        "    if rule.option:",
        ("tests/ranking/test_ranking.py::test_each_option_of_the_table_is_broken_alone_by_the_nearest_other_value",),
    ),
    Rule(
        "ranking: the master holds no accelerator's work",
        "aiperf/ranking/law.py",
        "        return not found\n",
        "        return True\n",
        RANKED,
    ),
    Rule(
        "ranking: TPE from round 4",
        "aiperf/ranking/law.py",
        "        return _is_same(found, self.value)\n",
        "        return isinstance(found, bool) or _is_same(found, self.value)\n",
        RANKED,
    ),
    Rule(
        "ranking: a simulated run never",
        RANKING_FILE,
        "    fact: is_simulated\n    law: {equals: false}",
        "    fact: is_simulated\n    law: {one_of: [false, true]}",
        RANKED,
    ),
    Rule(
        "ranking: bounds follow from the options and the workers",
        "aiperf/report/candidate.py",
        "        elif found != value:",
        "        elif False:",
        (
            "tests/ranking/test_candidate.py::test_a_space_that_does_not_follow_is_told_entry_by_entry_with_what_follows",
        ),
    ),
    Rule(
        "quick: no worker is lost",
        "aiperf/report/fold.py",
        "            if not event.released:\n",
        "            if False:\n",
        ("tests/ranking/test_candidate.py::test_what_came_of_a_run_is_told_with_the_line_that_shows_it",),
    ),
)

RULES: tuple[Rule, ...] = (
    *OPERATIONS,
    *SCORES,
    *TIME_BREAKDOWN,
    *PROCEDURE,
    *MORPHS,
    *BUDGET_AND_TUNING,
    *TRAINING,
    *RANKING,
)
