"""Definitions of metrics: every published name, and what it means.

The names are those of an existing system where it has the metric, so that runs can be laid side by side.
`<label>` and `<n>` stand for a label and for a number.
"""

from __future__ import annotations

_STATS = "env_curriculum_stats"

DEFINITIONS: dict[str, str] = {
    "metric/epoch": "how many epochs are over; the other axis of plots",
    "metric/agent_step": "steps of all environments since the run began",
    "overview/mean_performance": "simulated runs: mean competence in the learnable tasks",
    "overview/max_performance": "simulated runs: the highest of them",
    "overview/tasks_above_threshold": "simulated runs: how many learnable tasks are mastered (competence of 0.9)",
    "overview/sampling_entropy_normalized": "entropy of the labels drawn this epoch, over ln(number of labels)",
    "overview/sampling_gini_coefficient": "Gini of the labels drawn this epoch",
    "overview/sampling_max_min_ratio": "most over least drawn label this epoch; 0 if one was not drawn",
    "overview/effective_tasks": "e^entropy of the tasks' shares: how many equal ones would be as spread out",
    "overview/coverage": "share of the tasks under practice that have brought a result",
    "overview/staleness_mean": "mean over labels of the batches of results since one of it was among them",
    "overview/staleness_max": "the same for the label that was not seen for longest",
    f"{_STATS}/total_completions": "results since the run began; never goes back",
    f"{_STATS}/total_samples": "draws since the run began; never goes back",
    f"{_STATS}/num_evicted": "tasks that left the pool since the run began; never goes back",
    f"{_STATS}/mean_lp_score": "mean progress score of the tasks under practice",
    f"{_STATS}/pool_occupancy_gini": "Gini of results per task",
    f"{_STATS}/pool_lp_gini": "Gini of progress scores per task",
    f"{_STATS}/task_probability_gini": "Gini of the tasks' shares in what is drawn",
    f"{_STATS}/sampling_gini": "Gini of draws per label since the run began",
    f"{_STATS}/label_lp_gini": "Gini of progress per label",
    f"{_STATS}/eviction_gini": "Gini of evictions per label since the run began",
    f"{_STATS}/pool_composition_gini": "Gini of tasks under practice per label",
    f"{_STATS}/selectivity_loss_lp_to_prob": "pool_lp_gini − task_probability_gini: lost between progress and weights",
    f"{_STATS}/selectivity_loss_lp_label_to_sampling_label": "label_lp_gini − sampling_gini: lost between progress and draws",
    f"{_STATS}/labels_dropped": "labels forgotten to keep the table within its bound",
    f"{_STATS}/per_label_lp_scores/<label>": "average of the progress scores of the label's tasks at their results (EMA 0.1)",
    f"{_STATS}/per_label_completion_counts/<label>": "results of the label since the run began",
    f"{_STATS}/per_label_samples_this_epoch/<label>": "draws of the label this epoch",
    f"{_STATS}/per_label_evictions_this_epoch/<label>": "evictions of the label's tasks this epoch",
    f"{_STATS}/per_label_rewards/<label>": "average return of the label (EMA 0.1), without episodes that never ended",
    f"{_STATS}/per_label_success/<label>": "average success of the label (EMA 0.1)",
    f"{_STATS}/pool_composition_fraction/<label>": "share of the tasks under practice that have the label",
    f"{_STATS}/tracked_task_lp_scores/task_<n>": "progress score of the n-th task that was ever practised",
    f"{_STATS}/tracked_task_completions_this_epoch/task_<n>": "results of that task this epoch",
    "env_task_dependency/min_performance": "simulated runs: the lowest competence in a learnable task",
    "env_task_dependency/performance_std": "simulated runs: standard deviation of competence over learnable tasks",
    "env_task_dependency/total_samples": "simulated runs: episodes since the run began",
    "env_task_dependency/reward": "simulated runs: mean score of the epoch's episodes",
    "env_task_dependency/skill": "simulated runs: mean skill of the student in the epoch's episodes",
    "env_task_dependency/task_<n>": "simulated runs: `_performance` and `_samples` (episodes) of task n, up to 100 of them",
    "rollout/mean_return": "training: mean return of the last 100 episodes",
    "rollout/success_rate": "training: share of the last 100 episodes that succeeded",
    "rollout/success_low": "training: lower end of its 95 % interval",
    "rollout/success_high": "training: upper end of its 95 % interval",
    "rollout/episodes": "training: episodes that have ended since the run began",
    "progress/phase_index": "training: index of the present phase or stage, from 0",
    "progress/rating": "self-play: the learner's rating on the scale of the scripted players",
    "league/archived": "self-play: earlier selves that are in the archive",
    "league/snapshots": "self-play: snapshots that were taken since the run began",
    "league/rating/<name>": "self-play: the rating of a scripted player; it stays where the player is an anchor",
    "league/win_rate/<name>": "self-play: average result of the learner against that player (EMA 0.05; 1 won, 0.5 drawn)",
    "prompts/tried": "prompts that have brought a result",
    "prompts/impossible": "prompts that are left alone because they never succeed",
    "prompts/mastered": "prompts that are left alone because they always succeed",
    "prompts/noise": "prompts that are left alone because their results vary and do not rise",
    "evaluation/step": "training: the step whose weights were evaluated",
    "evaluation/score": "training: success rate over all tasks, a draw counting half; the best weights have the highest",
    "evaluation/<name>": "training: `success_rate`, `success_low`, `success_high` (95 %), `draw_rate`, `loss_rate`, "
    "`mean_return`, `mean_length`, `games`",
    "evaluation/mean_return": "training: over all tasks; decides where the score is equal",
    "time/steps_per_s": "training: steps of environments per second since the last row",
    "time/updates_per_s": "training: gradient steps per second since the last row",
    "train/updates_per_env_step": "training: the replay ratio that was asked for",
    "train/<n>": "training: what the agent's updates measured, such as losses, averaged since the last row",
    "env_is_success": "mean success of the epoch's episodes",
    "env_score": "mean score of the epoch's episodes",
    "rollup/values": "numbers that were taken in from infos this epoch",
    "rollup/skipped": "values in infos that are no finite numbers",
    "rollup/not_finite": "of these, NaN and infinite ones",
    "rollup/dropped_keys": "values under keys beyond the bound",
    "env_<key>": "training: mean of what the final infos of the epoch's episodes say under this key",
}


def definition(name: str) -> str | None:
    """The definition of a published `name`, or None if it has none."""
    if name in DEFINITIONS:
        return DEFINITIONS[name]
    for pattern, text in DEFINITIONS.items():
        stem, _, variable = pattern.partition("<")
        if variable and name.startswith(stem):
            return text
    return None
