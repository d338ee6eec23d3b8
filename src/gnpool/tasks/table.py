"""The table of the documentation that says on what each task trains and on what it is tested."""

from __future__ import annotations

from collections.abc import Sequence

from gnpool.tasks.task import Task, get_task, task_names

HEAD = ("task", "label", "train", "validation", "test", "metric")


def distribution_table(tasks: Sequence[Task] | None = None) -> str:
    r"""The train, validation and test data of tasks as a table in Markdown.

    Args:
        tasks (sequence of Task, optional): Its rows. (default: all registered tasks)

    Example:
        >>> from gnpool.tasks import distribution_table, get_task
        >>> print(distribution_table([get_task("mu_post")]).splitlines()[2][:50])
        | `mu_post` | posterior mean, sum(x) / (n + 1) | 4
    """
    rows = [HEAD, ("---",) * len(HEAD)]
    for task in [get_task(name) for name in task_names()] if tasks is None else tasks:
        splits = (task.describe(split) for split in ("train", "val", "test"))
        metric = getattr(task.metric, "__name__", str(task.metric))
        rows.append((f"`{task.name}`", task.target, *splits, metric.upper()))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
