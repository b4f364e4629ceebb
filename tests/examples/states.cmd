# A whole run on images that are learnt at once: 8 devices, 320 images to train with, 90 to test with in batches of 32, the last one masked.
# Losses, rates and times are left out; the accuracy of the last test is 1 with a wide margin.
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 320 90 columns
"$EXAMPLE" --data data --batch 32 --epochs 3 --neurons 64 --lr 0.01 --out trained | sed -E '
    s/([12].3: test loss) .*, test accuracy .*/\1 L, test accuracy A/; s/(3.3: test loss) 0\.0.*, (test accuracy 1.0000); .*/\1 below 0.1, \2/
    s/loss [0-9]+\.[0-9]{4}, accuracy [0-9.]+, [0-9]+ images\/s, [0-9]+:[0-9]+ left/loss L, accuracy A, R images\/s, T left/
    s/^((test|train)\/[a-z]+) .*/\1 (numbers)/; s/^Metric  *First.*/Metric (heads)/'
ls trained | sed 's/tfevents.*/tfevents/'
python3 -c "
import struct
print(*struct.unpack('>II', open('trained/spikes.png', 'rb').read()[16:24]))"
echo "== other things frozen"
for frozen in "" lif bias; do
    "$EXAMPLE" --data data --batch 32 --epochs 1 --neurons 8 --repeats 2 --limit 32 --frozen "$frozen" --out "other-$frozen" | grep trained
done
echo "== a training that is gone on with has the same bits"
small="--data data --batch 32 --neurons 8 --limit 96"
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 1 --out paused >printed
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 2 --out paused --resume | grep -E "^Going|: test" | sed 's/loss.*/loss/'
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 2 --out whole >printed
cmp paused/states.npz whole/states.npz && cmp paused/spikes.png whole/spikes.png && echo "the same to the bit"
