"""`python -m aiperf`: a run of the benchmark, or a verb. A first word that is a verb is taken before Hydra sees the rest."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from aiperf.errors import AiperfError
from aiperf.plain import plain_lines

VERBS = {
    "report": "write a run's report from its journal: one HTML file, report.json, plots",
    "score": "print a run's figures  [--json]",
    "flops": "count a network's operations  NAME_OR_FILE [--image 224] [--classes 1000] [--batch N] [--json]",
    "morph": "grow a network and show each step  NAME [--steps 20] [--seed 0] [--json FILE] [--draw FILE.svg]",
    "prepare": "check a data set, and pack it into shards  dataset=imagenet dataset.root=…",
    "rehearse": "sweep simulated clusters of 1 to 4096 workers and draw the result",
}
_MODULES = {verb: f"aiperf.cli.{verb}" for verb in VERBS}


def main(words: Sequence[str] | None = None) -> int:
    """Carries the command line out; gives the exit status. Errors that a user can mend are printed without a traceback."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        if words and words[0] in _MODULES:
            return int(importlib.import_module(_MODULES[words[0]]).main(words[1:]))
        if words and words[0] in ("-h", "--help", "help"):
            return int(importlib.import_module("aiperf.cli.help").main(words[1:]))
        if words and "=" not in words[0] and not words[0].startswith(("-", "+", "~")):
            near = difflib.get_close_matches(words[0], VERBS, n=1, cutoff=0.5)
            raise AiperfError(
                f"the first word is a verb ({', '.join(VERBS)}) or an option key=value; found {words[0]!r}"
                + (f" (did you mean {near[0]!r}?)" if near else "")
            )
        return int(importlib.import_module("aiperf.cli.run").main(words))
    except AiperfError as error:
        print(f"aiperf: {plain_lines(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output has left (`… | head`): nothing is wrong, and nothing more can be said.
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
