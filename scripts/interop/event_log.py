"""Reads our event files with TensorBoard: numbers, texts, and the steps that a resumed run replaces. Uses the reader
for programs and the reader of TensorBoard's own pages."""

import tempfile

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util import tensor_util

import common

steps = list(range(1, 11))
losses = [(1 if step <= 4 else 100) / step for step in steps]


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        c.run(c.build / "scripts" / "interop" / "event_log", folder)
        events = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
        scalars = events.Scalars("loss/train")
        c.check("scalars of all steps, once each", [s.step for s in scalars] == steps)
        c.close("values, from the resumed run where it has them", 1e-7, [s.value for s in scalars], losses)
        c.check("wall times grow", all(a.wall_time <= b.wall_time for a, b in zip(scalars, scalars[1:])))
        shown = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0}).Reload()
        numbers, texts = shown.Tensors("loss/train"), shown.Tensors("sample")
        c.check("steps in TensorBoard", [n.step for n in numbers] == steps and [t.step for t in texts] == steps)
        values = [float(tensor_util.make_ndarray(n.tensor_proto)) for n in numbers]
        c.close("values in TensorBoard", 1e-7, values, losses)
        strings = [tensor_util.make_ndarray(t.tensor_proto)[0].decode() for t in texts]
        c.check("texts in TensorBoard", strings == 4 * ["not yet"] + 6 * ["to be …"])
        plugins = [shown.SummaryMetadata(tag).plugin_data.plugin_name for tag in ("loss/train", "sample")]
        c.check("plugins", plugins == ["scalars", "text"])


if __name__ == "__main__":
    common.main(compare)
