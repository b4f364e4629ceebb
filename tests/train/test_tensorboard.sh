#!/usr/bin/env bash
# TensorBoard itself reads a logbook's files: every number at its step. Skipped if no Python has the package (MF_TENSORBOARD_PYTHON names one that
# has it).
set -uo pipefail
python=${MF_TENSORBOARD_PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || { echo "SKIP: $python has no tensorboard"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
MF_TEST_LOGBOOK=$work/logs "$MF_BUILD_DIR/tests/train/test_logbook" folder_for_tensorboard || exit 1
"$python" - "$work/logs" <<'PYTHON'
import json
import struct
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

logs = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
logs.Reload()
narrow = lambda x: struct.unpack("f", struct.pack("f", x))[0]
found = {}
for tag in logs.Tags()["scalars"]:
    found[tag] = [(e.step, e.value) for e in logs.Scalars(tag)]
loss = lambda step: 2.0 / (1 + 0.1 * step)
expected = {
    "train/loss": [(i, narrow(loss(i))) for i in range(101)],
    "train/accuracy": [(i, narrow(1 - 0.3 * loss(i))) for i in range(101)],
    "test/loss": [(i, narrow(loss(i) + 0.1)) for i in range(0, 101, 10)],
    "rate": [(i, 0.5) for i in range(101)],
}
assert set(found) == set(expected), found.keys()
for tag in expected:
    assert found[tag] == expected[tag], (tag, found[tag][:3], expected[tag][:3])
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
assert [line["step"] for line in lines] == list(range(101))
assert all(narrow(line["train/loss"]) == expected["train/loss"][line["step"]][1] for line in lines)
print(f"TensorBoard read {sum(map(len, found.values()))} numbers")
PYTHON
