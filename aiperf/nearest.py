"""Which right word somebody may have meant: by how it is spelt, and for options by what other tools call the same thing.

A hint that misleads costs more than none: a word is suggested where it begins as the typed one does, or is spelt nearly alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence

MOST_NAMED = 2
"""More suggestions than this are no hint."""
BEGINS = 3
"""So many letters say what is meant where a right word begins with them."""

SAID_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "schedule.duration_seconds=SECONDS": (
        *(
            "duration",
            "time",
            "seconds",
            "minutes",
            "hours",
            "walltime",
            "wall_time",
            "max_time",
            "time_limit",
            "length",
            "runtime",
        ),
        *("schedule.duration", "schedule.time", "schedule.seconds"),
    ),
    "schedule.warmup_seconds=SECONDS": ("warmup", "warm_up", "warmup_time", "schedule.warmup"),
    "schedule.epochs=[…]": (
        "epoch",
        "num_epochs",
        "n_epochs",
        "max_epochs",
        "nepochs",
        "trainer.epochs",
        "limits.epochs",
    ),
    "schedule=quick or schedule=ranking": ("mode", "preset", "ranking", "quick"),
    "accelerators_per_worker=N": (
        *("gpus", "gpu", "num_gpus", "n_gpus", "ngpus", "devices", "num_devices", "accelerators", "num_accelerators"),
        *("gpus_per_worker", "accelerator", "device", "trainer.gpus", "trainer.devices"),
    ),
    "accelerators_per_worker=N (workers follow from the machines and it), or +cluster=simulated cluster.workers=N": (
        *("workers", "num_workers", "n_workers", "nworkers", "limits.workers", "schedule.workers"),
    ),
    "+cluster=slurm cluster.nodes=N": ("nodes", "num_nodes", "n_nodes", "nnodes"),
    "+cluster=hosts cluster.hosts=[…]": ("hosts", "host", "hostlist", "hostnames"),
    "+cluster=hosts cluster.hostfile=FILE": ("hostfile", "machinefile"),
    "+cluster=slurm cluster.partition=…": ("partition", "queue"),
    "+cluster=slurm cluster.account=…": ("account",),
    "+cluster=slurm": ("slurm", "sbatch", "srun"),
    "+cluster=kubernetes": ("kubernetes", "k8s", "kube", "namespace"),
    "+cluster=ray cluster.address=…": ("ray", "ray_address", "address"),
    "+cluster=simulated": ("simulated", "simulate", "simulation", "simulator"),
    "+cluster=NAME": ("backend_cluster", "place", "platform", "launcher", "scheduler"),
    "trainer.ranks=N": ("ranks", "nproc", "nproc_per_node", "world_size", "num_ranks", "procs"),
    "trainer.threads=N": ("threads", "num_threads", "cpus", "cores", "num_cpus", "omp_num_threads"),
    "trainer.learning_rate=…": ("lr", "base_lr", "learningrate", "trainer.lr", "optimizer.lr"),
    "trainer.weight_decay=…": ("wd", "decay", "l2", "trainer.wd"),
    "trainer.momentum=… (stochastic gradient descent with momentum is the only optimiser)": (
        *("optimizer", "optimiser", "optim", "trainer.optimizer", "trainer.optimiser"),
    ),
    "trainer.precision=fp32, tf32, bf16 or fp16": (
        *("dtype", "amp", "fp16", "bf16", "fp32", "tf32", "half", "mixed_precision", "trainer.amp", "trainer.dtype"),
    ),
    "trainer.collective=…": ("backend", "nccl", "gloo", "horovod", "ddp", "dist_backend", "trainer.backend"),
    "batch.default=N": (
        *(
            "batch",
            "batch_size",
            "batchsize",
            "bs",
            "minibatch",
            "per_device_batch_size",
            "trainer.batch_size",
            "trainer.batch",
        ),
        *("batch.size", "dataset.batch_size"),
    ),
    "start=GRAPH": (
        *("model", "network", "net", "arch", "architecture", "graph", "backbone", "start_graph", "start_network"),
        *("resnet", "resnet50", "resnet18"),
    ),
    "dataset.root=FOLDER": (
        *(
            "data",
            "data_dir",
            "datadir",
            "data_root",
            "data_path",
            "dataset_path",
            "dataset_dir",
            "dataset_root",
            "root",
        ),
        *("dataset.path", "dataset.dir", "dataset.folder", "imagenet_path"),
    ),
    "dataset=NAME": ("imagenet", "cifar10", "digits", "synthetic"),
    "dataset.image=PIXELS": ("image_size", "img_size", "imgsz", "resolution", "dataset.size", "dataset.image_size"),
    "dataset.classes=N": ("num_classes", "n_classes", "nclasses"),
    "dataset.workers=N": ("loader_workers", "dataloader_workers", "data_workers", "num_data_workers"),
    "runs=FOLDER": (
        *(
            "output",
            "outputs",
            "output_dir",
            "out",
            "outdir",
            "out_dir",
            "logdir",
            "log_dir",
            "save_dir",
            "run_dir",
            "dir",
        ),
        *("results", "results_dir", "runs_dir", "workdir", "work_dir", "folder"),
    ),
    "name=TEXT": ("run_name", "experiment", "experiment_name", "exp_name", "job_name", "tag"),
    "seed=N": ("random_seed", "manual_seed", "rng_seed", "random_state", "trainer.seed"),
    "searcher=NAME": (
        "algorithm",
        "algo",
        "search",
        "strategy",
        "sampler",
        "method",
        "morphism",
        "evolution",
        "random",
    ),
    "hpo=tpe or hpo=off": ("tuner", "tuning", "tune", "optuna", "tpe", "hyperparameters"),
    "limits.trials=N": ("trials", "num_trials", "n_trials", "max_trials", "ntrials", "num_samples", "budget.trials"),
    "limits.attempts=N": ("retries", "max_retries", "attempts"),
    "schedule.patience=N": ("early_stopping", "early_stop"),
    "resume=RUN": ("continue", "restart", "restore", "resume_from", "checkpoint", "ckpt", "load", "resume_run"),
    "dry_run=true": ("dry", "plan", "check_only", "preview", "no_run"),
    "metrics_port=PORT": ("port", "prometheus_port", "metrics"),
    "follow=RUN": ("replay", "repeat_run", "same_as"),
}
"""What to write, and what it is called in other tools, or by whoever knows our word by half."""
_MEANT = {said: meant for meant, those in SAID_ELSEWHERE.items() for said in those}


def nearest(word: str, right: Collection[str]) -> str:
    """' (did you mean …?)', or nothing where nothing is near.

    >>> nearest("resnet50", ["resnet50_v1", "resnet50_v1_5", "resnet20"]), nearest("foo", ["bar"])
    (" (did you mean 'resnet50_v1' or 'resnet50_v1_5'?)", '')
    """
    lower = word.lower()
    begin = [each for each in right if len(lower) >= BEGINS and each.lower().startswith(lower)]
    near = difflib.get_close_matches(lower, right, n=1, cutoff=0.6)
    return asked(begin if 1 <= len(begin) <= MOST_NAMED else near)


def nearest_option(word: str, known: Sequence[str]) -> str:
    """The same for an option's name: by what it is called elsewhere, by its last part, by how it is spelt."""
    lower = word.lower().replace("-", "_")
    if lower in known:
        return asked([lower])
    if lower in _MEANT:
        return f" (did you mean {_MEANT[lower]}?)"
    part, dot, last = lower.rpartition(".")
    same = [each for each in known if each.rpartition(".")[2] == last]
    if 1 <= len(same) <= MOST_NAMED:
        return asked(same)
    if last in _MEANT:
        return f" (did you mean {_MEANT[last]}?)"
    # what is typed with its part is looked for there first; without one, by the last parts of all
    inside = [each for each in known if each.startswith(f"{part}.")] if dot else []
    near = difflib.get_close_matches(lower, inside or known, n=1, cutoff=0.75 if inside else 0.72)
    if not near:
        by_last = {each.rpartition(".")[2]: each for each in reversed(known)}
        near = [by_last[found] for found in difflib.get_close_matches(last, by_last, n=1, cutoff=0.8)]
    if not near:
        meant = difflib.get_close_matches(lower, _MEANT, n=1, cutoff=0.85)
        return f" (did you mean {_MEANT[meant[0]]}?)" if meant else ""
    return asked(near)


def asked(words: Sequence[str]) -> str:
    """' (did you mean …?)' with these words; nothing where there are none."""
    return f" (did you mean {' or '.join(map(repr, words))}?)" if words else ""
