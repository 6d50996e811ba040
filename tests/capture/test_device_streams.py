"""Streams inside a device capture, on a device module that writes down what it is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.capture.fake_device import FakeDevice
from tests.runtime.lane_graphs import Builder
from torchair.capture import device_graph, device_streams
from torchair.capture.device_graph import DeviceCapture

aten = torch.ops.aten
X = torch.rand(4, 4)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.setattr(device_graph, "_streams", {})
    monkeypatch.setattr(device_streams, "_streams", {})
    return FakeDevice()


def _captured(b: Builder, device: FakeDevice, *outputs: torch.fx.Node) -> DeviceCapture:
    return DeviceCapture(b.finish(*outputs), [X], device_module=device, device=torch.device("cpu"))


def _log(device: FakeDevice) -> list[tuple[Any, ...]]:
    """What happened on which stream while capturing; streams by what they are."""
    names = {
        s.name: f"side{i}" for i, s in enumerate(device_streams._streams.get((id(device), torch.device("cpu")), []))
    }
    names[device_graph._streams[id(device), torch.device("cpu")].name] = "main"
    begin, end = (next(i for i, e in enumerate(device.log) if e[0] == kind) for kind in ("capture", "captured"))
    events: dict[str, str] = {}
    found: list[tuple[Any, ...]] = []
    for entry in device.log[begin + 1 : end]:
        if entry[0] == "operator":
            if "empty" not in entry[1] and "set_" not in entry[1]:
                found.append((entry[1].split(".")[1], names[entry[2]]))
        else:
            kind, stream, other = entry
            found.append((kind, names[stream], names.get(other) or events.setdefault(other, f"event{len(events)}")))
    return found


def test_streams_are_forked_ordered_and_joined(device: FakeDevice) -> None:
    b = Builder(X)
    (x,) = b.inputs
    one = b.call(aten.sin.default, x, stream="a")
    token = b.record(stream="a")
    late = b.call(aten.cos.default, x, stream="a")
    b.wait(token)
    other = b.call(aten.neg.default, one)
    b.wait(late, stream="b")
    third = b.call(aten.exp.default, late, stream="b")
    capture = _captured(b, device, other, third)
    assert _log(device) == [
        ("wait", "side0", "main"),
        ("wait", "side1", "main"),
        ("sin", "side0"),
        ("record", "side0", "event0"),
        ("cos", "side0"),
        ("record", "side0", "event1"),
        ("wait", "main", "event0"),
        ("neg", "main"),
        ("wait", "side1", "event1"),
        ("exp", "side1"),
        ("wait", "main", "side0"),
        ("wait", "main", "side1"),
    ]
    got = capture.run([X])
    torch.testing.assert_close(got, [-X.sin(), X.cos().exp()])


def test_memory_that_crosses_streams_is_kept_until_all_have_ended(device: FakeDevice) -> None:
    b = Builder(X)
    (x,) = b.inputs
    one = b.call(aten.sin.default, x)
    b.wait(b.record(), stream="a")
    other = b.call(aten.cos.default, one, stream="a")
    # The allocator would give the memory of `one` to this, which does not wait for its reader.
    third = b.call(aten.exp.default, x)
    fourth = b.call(aten.neg.default, third)
    last = b.call(aten.relu.default, fourth)
    capture = _captured(b, device, other, last)
    (graph,) = (g() for g in device.graphs)
    assert graph is not None
    written = [outputs.data_ptr() for func, _, _, outputs in graph.calls if outputs is not None]
    assert len(written) == 5
    sin = written[0]
    assert sin not in written[1:]
    torch.testing.assert_close(capture.run([X]), [X.sin().cos(), (-X.exp()).relu()])


def test_a_graph_without_streams_uses_one(device: FakeDevice) -> None:
    b = Builder(X)
    capture = _captured(b, device, b.call(aten.sin.default, b.inputs[0]))
    assert _log(device) == [("sin", "main")]
    torch.testing.assert_close(capture.run([X]), [X.sin()])
