"""Export to TensorBoard event files: the run, and below trials/ one sub-run per trial with its hyperparameters.

Scalars are single-precision, at the wall time of the run. TensorBoard's default loader ignores scalars of double precision.
This module uses TensorBoard's protocol buffers and record writer. TensorBoard's file writers store host and time of the export,
so that no two exports would be equal.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator

from google.protobuf.struct_pb2 import Value as ProtoValue
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.summary.writer.record_writer import RecordWriter

from aiperf.export.figures import (
    PARAMETERS_OF_TRIAL,
    RESULTS_OF_TRIAL,
    ExportSeries,
    Value,
    parameters_of_run,
    parameters_of_trial,
    results_of_run,
    results_of_trial,
    series_of_run,
    series_of_trial,
)
from aiperf.export.record import File, RunRecord, TrialDetails
from aiperf.report.changes import morphs
from aiperf.sanitize import sanitize

_STATUS = {
    "finished": api_pb2.STATUS_SUCCESS,
    "failed": api_pb2.STATUS_FAILURE,
    "in training": api_pb2.STATUS_RUNNING,
    "cut off": api_pb2.STATUS_UNKNOWN,
    "waiting": api_pb2.STATUS_UNKNOWN,
    "never started": api_pb2.STATUS_UNKNOWN,
}


def files(record: RunRecord) -> Iterator[File]:
    """Yield one file for the run and one for each trial."""
    name = f"events.out.tfevents.{int(record.started.started_unix)}.aiperf"
    yield name, _file(record, _of_run(record))
    digits = len(str(max((trial.facts.number for trial in record.trials), default=0)))
    for trial in record.trials:
        yield f"trials/{trial.facts.number:0{digits}d}/{name}", _file(record, _of_trial(record, trial))


def _file(record: RunRecord, events: Iterable[Event]) -> list[bytes]:
    file = io.BytesIO()
    writer = RecordWriter(file)
    for event in (Event(wall_time=record.unix(0.0), file_version="brain.Event:2"), *events):
        writer.write(event.SerializeToString(deterministic=True))
    return [file.getvalue()]


def _of_run(record: RunRecord) -> Iterator[Event]:
    yield _event(record, 0.0, 0, _experiment(record))
    facts = "\n".join(
        f"    {sanitize(name)}: {sanitize(str(value))}"
        for name, value in ({"run": record.title} | parameters_of_run(record) | results_of_run(record)).items()
    )
    yield _event(record, 0.0, 0, _text("run", facts))
    for name, graph in record.graphs.items():
        yield _event(record, record.report.run.end, 0, _text(f"graph/{name}", _indented(json.dumps(graph, indent=1))))
    yield from _series_events(record, series_of_run(record))


def _of_trial(record: RunRecord, trial: TrialDetails) -> Iterator[Event]:
    facts = trial.facts
    began, ended = record.span(trial)
    start = SessionStartInfo(
        group_name=f"trial {facts.number}",
        start_time_secs=record.unix(began),
        hparams={name: _proto(value) for name, value in parameters_of_trial(trial).items()},
    )
    yield _event(
        record, began, 0, _hparams(metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start))
    )
    lines = [
        f"state: {trial.state}" + (f" ({sanitize(facts.reason)})" if facts.reason else ""),
        f"morphs: {sanitize(morphs(facts.morphs)) or 'none'}",
    ]
    yield _event(record, began, 0, _text("trial", _indented("\n".join(lines))))
    yield from _series_events(record, series_of_trial(trial))
    for name, value in results_of_trial(trial).items():
        yield _event(record, ended, facts.epochs, _scalar(f"trial/{name}", float(value)))
    finish = SessionEndInfo(status=_STATUS[trial.state], end_time_secs=record.unix(ended))
    yield _event(record, ended, 0, _hparams(metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=finish)))


def _series_events(record: RunRecord, series: list[ExportSeries]) -> Iterator[Event]:
    for each in series:
        for point in each.points:
            yield _event(record, point.at, point.step, _scalar(each.name, point.value))


def _event(record: RunRecord, at: float, step: int, value: Summary.Value) -> Event:
    return Event(wall_time=record.unix(at), step=step, summary=Summary(value=[value]))


def _scalar(tag: str, value: float) -> Summary.Value:
    # same form as torch.utils.tensorboard: all loaders show it, and EventAccumulator.Scalars reads it
    return Summary.Value(tag=tag, simple_value=value)


def _text(tag: str, text: str) -> Summary.Value:
    return Summary.Value(
        tag=tag,
        tensor=TensorProto(dtype=DT_STRING, tensor_shape=TensorShapeProto(), string_val=[text.encode()]),
        metadata=SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(plugin_name="text"), data_class="DATA_CLASS_TENSOR"
        ),
    )


def _indented(text: str) -> str:
    """Indent text as a Markdown code block."""
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _experiment(record: RunRecord) -> Summary.Value:
    kinds = {"number": api_pb2.DATA_TYPE_FLOAT64, "text": api_pb2.DATA_TYPE_STRING}
    experiment = api_pb2.Experiment(
        name=sanitize(record.title),
        time_created_secs=record.unix(0.0),
        hparam_infos=[api_pb2.HParamInfo(name=name, type=kinds[kind]) for name, kind in PARAMETERS_OF_TRIAL.items()],
        metric_infos=[
            api_pb2.MetricInfo(name=api_pb2.MetricName(tag=f"trial/{name}"), display_name=name.replace("_", " "))
            for name in RESULTS_OF_TRIAL
        ],
    )
    return _hparams(metadata.EXPERIMENT_TAG, HParamsPluginData(experiment=experiment))


def _hparams(tag: str, content: HParamsPluginData) -> Summary.Value:
    content.version = metadata.PLUGIN_DATA_VERSION
    return Summary.Value(
        tag=tag,
        tensor=metadata.NULL_TENSOR,
        metadata=SummaryMetadata(
            plugin_data=SummaryMetadata.PluginData(
                plugin_name=metadata.PLUGIN_NAME, content=content.SerializeToString(deterministic=True)
            )
        ),
    )


def _proto(value: Value) -> ProtoValue:
    return ProtoValue(string_value=sanitize(value)) if isinstance(value, str) else ProtoValue(number_value=value)
