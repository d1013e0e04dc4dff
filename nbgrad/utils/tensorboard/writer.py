"""`torch.utils.tensorboard`: what TensorBoard shows, written through the `tensorboard` package, which must be installed.

    writer = SummaryWriter("runs/first")
    for step in range(100):
        writer.add_scalar("loss", loss(), step)
    writer.close()                                   # then: tensorboard --logdir runs

Promises scalars as PyTorch writes them (the other kinds of events were not held against its files). Graphs of models,
videos, sounds, boxes, embeddings and meshes are not written: those methods say so.
"""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from socket import gethostname
from typing import Any, NoReturn

import numpy as np

# Not nbgrad's: whoever imports this wants it.
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-not-found, import-untyped, unused-ignore]
from tensorboard.compat.proto.summary_pb2 import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # type: ignore[import-not-found, import-untyped, unused-ignore]
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # type: ignore[import-not-found, import-untyped, unused-ignore]
from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-not-found, import-untyped, unused-ignore]

from nbgrad.core.tensor import Tensor
from nbgrad.names.absent import refuse

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One file of events."""

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The directory where it is."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event of that step, and of now."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """What is written so far can be read."""
        self.event_writer.flush()

    def close(self) -> None:
        """Nothing more will be written."""
        self.event_writer.close()

    def reopen(self) -> None:
        """More will be written, to another file."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes events into `log_dir`; without one into `runs/` and the time and the machine's name, with `comment` behind."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        edges = []
        edge = 1e-12
        while edge < 1e20:
            edges.append(edge)
            edge *= 1.1
        self.default_bins = [-e for e in reversed(edges)] + [0] + edges

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            writer = self.file_writer = FileWriter(
                self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix
            )
            self.all_writers = {writer.get_logdir(): writer}
            if self.purge_step is not None:
                writer.add_event(Event(step=self.purge_step, file_version="brain.Event:2"))
                writer.add_event(Event(step=self.purge_step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def _add(self, value: Any, step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(Summary(value=[value]), step, walltime)

    def get_logdir(self) -> Any:
        """The directory where it writes."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a step."""
        self._add(_scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Numbers of a step that are shown together, each in a directory of its own."""
        walltime = time.time() if walltime is None else walltime
        home = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            path = f"{home}/{main_tag.replace('/', '_')}_{tag}"
            if path not in writers:
                writers[path] = FileWriter(path, self.max_queue, self.flush_secs, self.filename_suffix)
            writers[path].add_summary(Summary(value=[_scalar(main_tag, value)]), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are spread."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        found = _histogram(_array(values).astype(float).reshape(-1), bins, max_bins)
        self._add(Summary.Value(tag=tag, histo=found), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Sequence[Any],
        bucket_counts: Sequence[Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """How values are spread that were counted elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        found = HistogramProto(
            min=min,
            max=max,
            num=num,
            sum=sum,
            sum_squares=sum_squares,
            bucket_limit=bucket_limits,
            bucket=bucket_counts,
        )
        self._add(Summary.Value(tag=tag, histo=found), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: numbers from 0 to 1, or bytes."""
        self._add(
            Summary.Value(tag=tag, image=_image(_array(img_tensor), dataformats)), global_step, walltime
        )

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Pictures, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib's, or a list of them."""
        if isinstance(figure, list):
            self.add_image(
                tag, np.stack([_drawn(one, close) for one in figure]), global_step, walltime, "NCHW"
            )
        else:
            self.add_image(tag, _drawn(figure, close), global_step, walltime, "CHW")

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Words, in Markdown."""
        from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData  # type: ignore[import-not-found, import-untyped, unused-ignore]

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        words = TensorProto(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        about = _about("text", TextPluginData(version=0))
        self._add(
            Summary.Value(tag=f"{tag}/text_summary", metadata=about, tensor=words), global_step, walltime
        )

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision over recall."""
        from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData  # type: ignore[import-not-found, import-untyped, unused-ignore]

        count = min(num_thresholds, 127)
        found = _curve(_array(labels), _array(predictions), count, weights)
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in found.shape])
        numbers = TensorProto(dtype="DT_FLOAT", float_val=found.reshape(-1).tolist(), tensor_shape=shape)
        about = _about("pr_curves", PrCurvePluginData(version=0, num_thresholds=count))
        self._add(Summary.Value(tag=tag, metadata=about, tensor=numbers), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """What a run was made with, and what came out, in a directory of its own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        told = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        home = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=home) as run:
            for summary in told:
                run._get_file_writer().add_summary(summary, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """What is written so far can be read."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Nothing more will be written, or to another file."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _not_built(name: str) -> Any:
    def method(self: SummaryWriter, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(f"torch.utils.tensorboard.SummaryWriter.{name}")

    method.__name__, method.__doc__ = name, "Not in nbgrad: whoever uses it is told so."
    return method


for _name in (
    *(
        "graph",
        "onnx_graph",
        "embedding",
        "video",
        "audio",
        "mesh",
        "tensor",
        "image_with_boxes",
        "pr_curve_raw",
    ),
    *("custom_scalars", "custom_scalars_multilinechart", "custom_scalars_marginchart"),
):
    setattr(SummaryWriter, f"add_{_name}", _not_built(f"add_{_name}"))


# ---------------------------------------------------------------- what is written


def _array(x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, list):
        return np.array(x)
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        found: np.ndarray[Any, Any] = (x.float() if x.dtype.name == "bfloat16" else x).numpy()
        return found
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _about(plugin: str, content: Any) -> Any:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content.SerializeToString())
    return SummaryMetadata(plugin_data=data)


def _scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    found = _array(value).squeeze()
    if found.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions).             Was given size: {found.size} and {found.ndim} dimensions."
        )
    number = float(found)
    if not new_style:
        return Summary.Value(tag=tag, simple_value=number)
    kept = TensorProto(float_val=[number], dtype="DT_FLOAT")
    if double_precision:
        kept = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    return Summary.Value(tag=tag, tensor=kept, metadata=about)


def _histogram(values: np.ndarray[Any, Any], bins: Any, max_bins: int | None) -> Any:
    """Without the empty buckets at both ends, but for one before."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        many = len(counts) // max_bins
        if len(counts) % many:
            counts = np.pad(counts, (0, many - len(counts) % many))
        counts = counts.reshape(-1, many).sum(axis=-1)
        limits = np.append(limits[:-1:many], limits[-1])
    filled = np.flatnonzero(counts)
    if not len(filled):
        raise ValueError("The histogram is empty, please file a bug report.")
    first, end = int(filled[0]), int(filled[-1]) + 1
    kept = counts[first - 1 : end] if first > 0 else np.concatenate([[0], counts[:end]])
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits[first : end + 1].tolist(),
        bucket=kept.tolist(),
    )


def _rows_first(x: np.ndarray[Any, Any], dataformats: str) -> np.ndarray[Any, Any]:
    """Height, width and three colours; of several pictures, eight in a row."""
    if len(set(dataformats)) != len(dataformats):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice.             input_format: {dataformats}"
        )
    if x.ndim != len(dataformats):
        raise AssertionError(
            f"size of input tensor and input format are different.         tensor shape: {x.shape}, input_format: {dataformats}"
        )
    order = {4: "NCHW", 3: "HWC", 2: "HW"}[len(dataformats)]
    x = x.transpose([dataformats.upper().find(c) for c in order])
    if x.ndim == 2:
        return np.stack([x] * 3, 2)
    if x.ndim == 3:
        return np.concatenate([x] * 3, 2) if x.shape[2] == 1 else x
    if x.shape[1] == 1:
        x = np.concatenate([x] * 3, 1)
    if x.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = x.shape
    columns = min(count, 8)
    canvas = np.zeros((3, height * math.ceil(count / columns), width * columns), x.dtype)
    for i, one in enumerate(x):
        y, at = divmod(i, columns)
        canvas[:, y * height : (y + 1) * height, at * width : (at + 1) * width] = one
    return canvas.transpose(1, 2, 0)


def _image(x: np.ndarray[Any, Any], dataformats: str) -> Any:
    from PIL import Image  # type: ignore[import-not-found, import-untyped, unused-ignore]

    x = _rows_first(x, dataformats)
    scale = 1 if x.dtype == np.uint8 else 255
    pixels = (x.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    height, width, channel = pixels.shape
    out = io.BytesIO()
    Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS).save(out, format="PNG")
    return Summary.Image(height=height, width=width, colorspace=channel, encoded_image_string=out.getvalue())


def _drawn(figure: Any, close: bool) -> np.ndarray[Any, Any]:
    import matplotlib.backends.backend_agg as agg  # type: ignore[import-not-found, unused-ignore]
    import matplotlib.pyplot as plt  # type: ignore[import-not-found, unused-ignore]

    canvas: Any = agg.FigureCanvasAgg(figure)  # type: ignore[no-untyped-call, unused-ignore]
    canvas.draw()  # type: ignore[no-untyped-call, unused-ignore]
    found = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
    if close:
        plt.close(figure)
    return found


def _curve(labels: Any, predictions: Any, count: int, weights: Any) -> np.ndarray[Any, Any]:
    """True and false positives, true and false negatives, precision and recall at each threshold."""
    weights = 1.0 if weights is None else weights
    at = np.int32(np.floor(predictions * (count - 1)))
    true = labels.astype(np.float64)

    def beyond(weight: Any) -> Any:
        found, _ = np.histogram(at, count, (0, count - 1), weights=weight)
        return np.cumsum(found[::-1])[::-1]

    tp, fp = beyond(true * weights), beyond((1.0 - true) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    return np.stack((tp, fp, tn, fn, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)))


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: Iterable[str] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """What `add_hparams` writes: of an experiment, of the start of a run and of its end."""
    from google.protobuf.struct_pb2 import ListValue  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from google.protobuf.struct_pb2 import Value as One
    from tensorboard.plugins.hparams import api_pb2 as api  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from tensorboard.plugins.hparams import metadata as names
    from tensorboard.plugins.hparams import plugin_data_pb2 as data

    given, domains = hparam_dict or {}, hparam_domain_discrete or {}
    if not isinstance(given, dict):
        raise TypeError("parameter: hparam_dict should be a dictionary, nothing logged.")
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domains.items():
        kind = type(given.get(name))
        if name not in given or not isinstance(values, list) or not all(isinstance(v, kind) for v in values):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )
    start, told = data.SessionStartInfo(), []
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, Tensor):
            code, field = "FLOAT64", "number_value"
            value = _array(value)[0]
        elif isinstance(value, (int, float)):  # a bool, too
            code, field = "FLOAT64", "number_value"
        elif isinstance(value, str):
            code, field = "STRING", "string_value"
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        setattr(start.hparams[name], field, value)
        domain = ListValue(values=[One(**{field: v}) for v in domains[name]]) if name in domains else None
        told.append(
            api.HParamInfo(name=name, type=api.DataType.Value(f"DATA_TYPE_{code}"), domain_discrete=domain)
        )
    metric_infos = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict or ()]
    end = data.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
    contents = {
        names.EXPERIMENT_TAG: {"experiment": api.Experiment(hparam_infos=told, metric_infos=metric_infos)},
        names.SESSION_START_INFO_TAG: {"session_start_info": start},
        names.SESSION_END_INFO_TAG: {"session_end_info": end},
    }
    made = []
    for tag, content in contents.items():
        held = data.HParamsPluginData(version=names.PLUGIN_DATA_VERSION, **content)
        made.append(Summary(value=[Summary.Value(tag=tag, metadata=_about(names.PLUGIN_NAME, held))]))
    return made[0], made[1], made[2]
