# A whole run on images that are learnt at once: 4 devices, 320 images to train with, 50 to test with. It is paused and goes on
# from its checkpoint, to what a run at one go comes to. Losses, accuracies, rates and times are left out.
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 320 50
small="--data data --batch 32 --epochs 12 --width 4 --blocks 2 --lr 0.2 --smoothing 0 --no-augment"
plain() {
    sed -E 's/loss [0-9.]+, accuracy [0-9.]+, [0-9]+ images\/s, [0-9]+:[0-9]+ left/loss L, accuracy A, R images\/s, T left/
        s/test loss [0-9.]+, test accuracy [0-9.]+/test loss L, test accuracy A/; s/^((train|test)\/[a-z]+) .*/\1 .../; /^Epoch.*batch/d'
}
# shellcheck disable=SC2086
"$EXAMPLE" $small --devices 4 --pause 4 --out paused | plain
# shellcheck disable=SC2086
"$EXAMPLE" $small --devices 4 --out paused --resume | plain
# shellcheck disable=SC2086
"$EXAMPLE" $small --devices 4 --out whole >printed
ls paused paused/resnet-checkpoints | sed 's/tfevents.*/tfevents/' | uniq
cmp paused/resnet.safetensors whole/resnet.safetensors && echo "the same to the bit"
tail -n 1 whole/metrics.jsonl | python3 -c '
import json, sys
last = json.loads(sys.stdin.read())
print("learnt" if last["test/accuracy"] > 0.9 and last["train/accuracy"] > 0.9 else last)'
