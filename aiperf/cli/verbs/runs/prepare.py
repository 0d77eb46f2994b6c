"""`python -m aiperf prepare`: check a data set before a run, and pack it into shards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.cli.output import print_lines
from aiperf.errors import BadConfiguration
from aiperf.files import given_path

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.dataset_config import DataSetConf
    from aiperf.data.description import PrepareReport

DESCRIPTION = """Checks a data set: counts images and classes, decodes every image, writes the SHA-256 of each file
(aiperf-checksums.jsonl) and an index of the class folders, which runs read instead of listing the folders
(aiperf-folders.index). An interrupted check continues at the next call. With --index-only no image is read.
With --pack the images are packed into WebDataset shards, for dataset.format=webdataset.
With --archives the folders of dataset=imagenet are made from the original archives (ILSVRC2012_img_train.tar,
ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz), whose published MD5 sums are checked.
Weather files are checked for faults by year and image, and packed so that one image is read at once.
Files of tokens are read through once, and runs read the record of that (aiperf-tokens.json)."""
EXAMPLES = (
    "dataset=imagenet dataset.root=/data/imagenet",
    "dataset=imagenet dataset.root=/data/imagenet --index-only",
    "dataset=imagenet dataset.root=/data/imagenet --archives /data/downloads",
    "dataset=imagenet dataset.root=/data/imagenet --pack /data/imagenet-shards",
    "dataset=weather dataset.root=/data/climo --pack /data/climo-packed",
    "dataset=tokens dataset.root=/data/fineweb10B",
)
OPTIONS = "dataset=NAME [OPTION …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pack", type=given_path, metavar="FOLDER", help="pack the undamaged images there")
    parser.add_argument(
        "--checksums", type=given_path, metavar="FILE", help="file of the checksums (default: next to the images)"
    )
    parser.add_argument(
        "--published-layout", action="store_true", help="with dataset=weather_synthetic: compress as the real files are"
    )
    parser.add_argument(
        "--archives",
        type=given_path,
        metavar="FOLDER",
        help="with dataset=imagenet: make the set from the archives there",
    )
    parser.add_argument("--index-only", action="store_true", help="write the index of the class folders; read no image")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    if not options:
        raise BadConfiguration("prepare needs a data set. Give dataset=NAME dataset.root=FOLDER")
    from aiperf.cli.site import words_with_site
    from aiperf.config import configure

    conf = configure(words_with_site(options)).dataset
    if arguments.index_only:
        if any(each is not None for each in (arguments.pack, arguments.checksums, arguments.archives)):
            raise BadConfiguration("--index-only reads no image: leave --pack, --checksums and --archives out")
        from aiperf.data.survey import write_index

        print_lines(write_index(conf))
        return 0
    from aiperf.console import SanitizedConsole
    from aiperf.data.dataset_config import ImagenetConf
    from aiperf.data.verification import prepare, prepare_images  # imports torch

    if arguments.archives is not None:
        if not isinstance(conf, ImagenetConf) or conf.format != "folder" or arguments.published_layout:
            raise BadConfiguration(
                f"--archives makes the folders of dataset=imagenet, but found dataset={conf.name}: leave it out"
            )
        images, out = conf.as_images(), SanitizedConsole()
        report = prepare_images(images, arguments.pack, out, arguments.checksums, arguments.archives)
    elif arguments.published_layout:
        report = _published_layout(conf, arguments.pack, SanitizedConsole())
    else:
        report = prepare(conf, pack=arguments.pack, out=SanitizedConsole(), checksums=arguments.checksums)
    print_lines(report.lines)
    return 0 if report.is_usable else 1


def _published_layout(conf: DataSetConf, pack: Path | None, out: Console) -> PrepareReport:
    from aiperf.data.dataset_config import WeatherSyntheticConf
    from aiperf.data.sets.weather_synthetic import prepare

    if not isinstance(conf, WeatherSyntheticConf) or pack is None:
        raise BadConfiguration(
            "--published-layout needs dataset=weather_synthetic and --pack FOLDER. Give both of them"
        )
    return prepare(conf, pack, out, None, is_published_layout=True)
