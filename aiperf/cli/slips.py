"""Words that other tools, Hydra among them, take and a run does not: each is answered with our word for it.

A function of the words; what there is to say is data.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

from aiperf.errors import BadConfiguration

_LOOP = "a shell loop (for seed in 0 1 2; do {program} seed=$seed; done)"
_SWEEP = (
    f"{_LOOP}, +cluster=slurm cluster.repeat=N for equal runs in turn, "
    "`{program} rehearse` for simulated clusters of many sizes"
)


def _by_word(answers: Mapping[str, str]) -> dict[str, str]:
    return {word: answer for words, answer in answers.items() for word in words.split()}


NO_VERB: Mapping[str, str] = _by_word(
    {
        "run train start launch bench benchmark search go begin exec": (
            "a run needs no verb: {program} [GROUP=CHOICE …] [OPTION=VALUE …]"
        ),
        "version versions info": "versions are shown by: {program} --version",
        "config cfg conf show-config": "a configuration is shown by: {program} [OPTION=VALUE …] --cfg job",
        "dry_run dry-run dryrun plan": "a plan is shown by: {program} [OPTION=VALUE …] dry_run=true",
        "resume continue restart": "a run is gone on with by: {program} resume=RUN",
        "simulate simulation sim": "a simulated run: {program} +cluster=simulated; one of many sizes: {program} rehearse",
        "sweep multirun repeat": f"one command is one run; several: {_SWEEP}",
        "slurm sbatch srun": "a run on Slurm: {program} +cluster=slurm",
        "kubernetes k8s kubectl": "a run on Kubernetes: {program} +cluster=kubernetes",
        "ls list runs leaderboard": "runs are listed by: {program} rank runs",
        "watch top monitor tail show": "how a run stands: {program} status RUN",
        "plot html summary render": "a run's report is written by: {program} report RUN",
        "validate audit": "rules are checked by: {program} check RUN; figures are worked out again by: {program} verify RUN",
        "doctor diagnose env system": "machines are checked by: {program} preflight",
        "download data dataset": "nothing is downloaded; a data set is checked by: {program} prepare dataset=NAME",
        "diff": "runs are compared by: {program} compare A B",
    }
)
"""First words that are no verb, and what is meant by them."""

FLAGS: Mapping[str, str] = _by_word(
    {
        "--multirun -m --sweep": (
            f"one command is one run, so that every score has its own journal and nothing shares its machine; several: {_SWEEP}"
        ),
        "--run -r": "a run needs no flag: {program} [GROUP=CHOICE …] [OPTION=VALUE …]",
        "--info -i": "versions are shown by --version, the composed configuration by --cfg job, all options by --help",
        "--hydra-help": "Hydra's own options are not open: --help lists every option of a run, --cfg job what they compose",
        "--config-name -cn --config-path -cp --config-dir -cd --config": (
            "the configuration travels with the package, and groups and options on the command line change it (--help lists "
            "them); a file of your own can hold them, one a line: {program} $(cat my-options)"
        ),
        "--experimental-rerun": "a run is gone on with by: {program} resume=RUN; done again by: {program} follow=RUN",
        "--shell-completion -sc": "completion is printed by: {program} completion bash (or zsh, fish)",
        "--package -p --resolve": "{found} goes with --cfg job: {program} --cfg job {found}",
        "-v -V --versions": "versions are shown by: {program} --version",
        "-n --dry-run --dryrun --dry --plan": "a plan is shown by: {program} dry_run=true",
        "--json": "a run prints for people; its figures as JSON: {program} score RUN --json",
        "--quiet -q --verbose --debug --log-level": "a run prints one table; there is no louder and no quieter one",
    }
)
"""Flags that a run does not take."""


def refuse_slips(words: Sequence[str], verbs: Collection[str], options: Sequence[str], program: str) -> None:
    """Raises BadConfiguration for a first word that is no verb, and for the first flag among a run's words."""
    if words and re.fullmatch(r"[\w-]+", words[0]) and not words[0].startswith("-"):
        raise BadConfiguration(_no_verb(words, verbs, options, program))
    for place, word in enumerate(words):
        if word.startswith("-") and (answer := _flag(word, words[place + 1 : place + 2], options)) is not None:
            raise BadConfiguration(answer.replace("{program}", program))


def _no_verb(words: Sequence[str], verbs: Collection[str], options: Sequence[str], program: str) -> str:
    word = words[0]
    if word.lower() in NO_VERB:
        return f"there is no verb {word!r}: {NO_VERB[word.lower()].replace('{program}', program)}"
    if word in options:
        return f"an option is written key=value; found {word!r} (did you mean '{word}=…'?)"
    near = difflib.get_close_matches(word.lower(), verbs, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"the first word is a verb ({', '.join(verbs)}) or an option key=value; found {word!r}{hint}"


def _flag(word: str, after: Sequence[str], options: Sequence[str]) -> str | None:
    from aiperf.nearest import nearest_option

    flag, is_given, value = word.partition("=")
    if flag in FLAGS:
        return f"there is no {flag} here: {FLAGS[flag].replace('{found}', flag)}"
    name = flag.lstrip("-").replace("-", "_")
    value = (
        value if is_given else "".join(each for each in after if "=" not in each and not each.startswith("-")) or "…"
    )
    if name in options:
        return f"an option is written key=value; found {word!r}: write {name}={value}"
    hint = nearest_option(name, options)
    return f"an option is written key=value; found {word!r}{hint}. `{{program}} --help` lists them"
