"""`python -m aiperf predict`: predict the score of a run before it starts."""

from __future__ import annotations

import argparse

from aiperf.cli.arguments import add_json, add_number
from aiperf.errors import conflict
from aiperf.files import given_path

DESCRIPTION = """Predicts the score of a run, its 95 % interval and its time breakdown. The profile of a real run gives the
speeds, and 16 simulations with different seeds give the score. Default: a pilot run of the same options
comes first. The interval covers the spread of the search, not of the machine (docs/prediction.md).

Exit status: 0, or 1 if --again finds another figure than the file holds."""
EXAMPLES = (
    "--from runs/20261121-120000-digits --out prediction.json",
    "dataset=images dataset.root=/data/flowers --pilot 120",
    "--from runs/small --workers 64",
    "--again prediction.json",
)
OPTIONS = "[OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", metavar="RUN", help="take the profile from this run")
    add_number(
        parser,
        "--pilot",
        "length of the pilot run in seconds",
        float,
        default=60.0,
        least=10,
        most=86400,
        metavar="SECONDS",
    )
    add_number(parser, "--workers", "number of workers", default_in_words="as in the profile", least=1, most=1_000_000)
    parser.add_argument(
        "--again", metavar="FILE|RUN", type=given_path, help="repeat the prediction of a file or run, and compare"
    )
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.output import print_result
    from aiperf.cli.site import words_with_site
    from aiperf.page.section import Paragraph
    from aiperf.simulate.study.predict import again, parts, pilot, predict
    from aiperf.statistics.predicted_score import as_json
    from aiperf.submission.submitted_runs import is_submission, run_folder

    is_equal = True
    if arguments.again is not None:
        if options or arguments.source is not None:
            raise conflict("--again", [*options, arguments.source][0], "Its file has everything: leave the other out")
        predicted, is_equal = again(arguments.again)
    else:
        if options or arguments.source is None:
            options = words_with_site(options)
        runs = next((word.partition("=")[2] for word in options if word.startswith("runs=")), "runs")
        if arguments.source is None:
            predicted = predict(pilot(options, arguments.pilot, runs), runs, options, arguments.workers)
        else:
            source = arguments.source
            source = str(run_folder(source)) if is_submission(source) else source
            predicted = predict(source, runs, options or None, arguments.workers)
    equal = (
        "equal to the file, to the last digit"
        if is_equal
        else "differs from the file: another release, or an altered file"
    )
    again_text = None if arguments.again is None else Paragraph(equal)
    print_result("aiperf-prediction", as_json(predicted), (*parts(predicted), again_text), arguments)
    return 0 if is_equal else 1
