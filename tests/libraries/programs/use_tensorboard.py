"""All that a SummaryWriter writes, read back from its files: values, names, pictures, curves, parameters of runs."""

import hashlib
import os
import struct
import zlib

import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams


def pixels(data):
    """Of a PNG without interlacing, whoever packed it: its size and a digest of its lines."""
    at, lines = 8, b""
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", data[at + 8 : at + 18])
        if kind == b"IDAT":
            lines += data[at + 8 : at + 8 + length]
        at += 12 + length
    step = {0: 1, 2: 3, 6: 4}[colours]
    raw, before, shown = zlib.decompress(lines), bytes(width * step), []
    for k in range(height):
        way, line = (
            raw[k * (width * step + 1)],
            bytearray(raw[k * (width * step + 1) + 1 : (k + 1) * (width * step + 1)]),
        )
        for i in range(len(line)):
            left, up, corner = (
                (line[i - step] if i >= step else 0),
                before[i],
                (before[i - step] if i >= step else 0),
            )
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda c: abs(guess - c))
            line[i] = (line[i] + (0, left, up, (left + up) // 2, nearest)[way]) & 255
        before = bytes(line)
        shown.append(before)
    return width, height, depth, colours, hashlib.md5(b"".join(shown)).hexdigest()


def tell(folder):
    for where, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = os.path.join(where, name)
            for event in EventFileLoader(path).Load():
                for value in event.summary.value:
                    kind, plugin = value.WhichOneof("value"), value.metadata.plugin_data
                    print(
                        "step", event.step, value.tag, kind, plugin.plugin_name, value.metadata.display_name
                    )
                    if kind == "image":
                        print(
                            value.image.height,
                            value.image.width,
                            value.image.colorspace,
                            pixels(value.image.encoded_image_string),
                        )
                    elif kind == "tensor":
                        array = tensor_util.make_ndarray(value.tensor)
                        if plugin.plugin_name == "images":
                            print(list(array[:2]), [pixels(picture) for picture in array[2:]])
                        else:
                            print(array.dtype, array.shape, array.tolist())
                    elif kind == "histo":
                        h = value.histo
                        print(h.min, h.max, h.num, h.sum, h.sum_squares, list(h.bucket_limit), list(h.bucket))
                    else:
                        print(getattr(value, kind) if kind else sorted(plugin.content))


torch.manual_seed(0)
x = torch.arange(24.0).reshape(2, 3, 2, 2) / 24
with SummaryWriter("runs") as writer:
    writer.add_scalar("loss", 0.5, 1)
    writer.add_scalar("loss", torch.tensor(0.25), 2, new_style=True)
    writer.add_scalar("loss", torch.tensor(0.125), 3, new_style=True, double_precision=True)
    writer.add_scalars("both", {"a": 1.0, "b": torch.tensor(2.0)}, 1)
    writer.add_histogram("weights", torch.arange(-5.0, 20.0), 1, bins="auto")
    writer.add_histogram("weights", torch.linspace(-2, 2, 50), 2)
    writer.add_histogram("weights", torch.arange(10), 3, bins=5)
    writer.add_histogram_raw(
        "raw", min=0, max=3, num=4, sum=6, sum_squares=14, bucket_limits=[1, 2, 3], bucket_counts=[1, 2, 1]
    )
    writer.add_image("image", x[0], 1)
    writer.add_image("image", (x[0] * 255).to(torch.uint8).permute(1, 2, 0), 2, dataformats="HWC")
    writer.add_image("grey", x[0, 0], 3, dataformats="HW")
    writer.add_images("images", x, 1)
    writer.add_text("text", "some *words*", 1)
    writer.add_pr_curve(
        "curve", torch.tensor([0, 1, 1, 0, 1]), torch.tensor([0.1, 0.9, 0.4, 0.6, 0.7]), 1, num_thresholds=5
    )
    writer.add_hparams(
        {"lr": 0.1, "name": "sgd", "nesterov": True, "depth": 3},
        {"accuracy": 0.9, "loss": 0.1},
        run_name="best",
    )
tell("runs")

# Lightning's logger writes them itself. What is by name stands in any order.
for summary in hparams({"lr": 0.1, "name": "sgd", "depth": 3}, {"accuracy": 0}):
    for value in summary.value:
        content = value.metadata.plugin_data.content
        print(value.tag, len(content), sum(content))
