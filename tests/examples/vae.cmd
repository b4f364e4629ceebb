# A whole run on images that are learnt at once: 8 devices, 320 images to train with, 90 to test with in batches of 32, the last one masked;
# then the saved model draws the same again. Losses, rates and times are left out; that of the last epoch is below half of what knowing
# nothing costs, 784 log 2 = 543, with a wide margin.
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 320 90
mkdir trained
"$EXAMPLE" --data data --batch 32 --epochs 3 --hidden 64 --latents 4 --lr 0.01 --out trained | sed -E '
    /^Epoch 3.3: test/s/test loss ([0-9.]+):.*/\1/; /^Epoch 3.3: [0-9]/{
        s/: (4[0-4]|3[0-9]|2[0-9])[0-9]\..*/: test loss below 450/
    }
    s/loss [0-9]+\.[0-9]{2}/loss L/; s/reconstruction [0-9.]+, KL [0-9.]+/reconstruction R, KL K/
    s/[0-9]+ images\/s, [0-9]+:[0-9]+ left/R images\/s, T left/; s/^((test|train)\/[a-z]+) .*/\1 (numbers)/'
ls trained | sed 's/tfevents.*/tfevents/'
cp trained/samples.png trained/reconstructions.png .
"$EXAMPLE" --data data --hidden 64 --latents 4 --out trained --generate
cmp samples.png trained/samples.png
cmp reconstructions.png trained/reconstructions.png
python3 -c "
import struct
print(*(struct.unpack('>II', open(f'trained/{name}.png', 'rb').read()[16:24]) for name in ('samples', 'reconstructions')))"
echo "== a training that is gone on with has the same bits"
small="--data data --batch 32 --hidden 8 --latents 2 --limit 128"
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 1 --out paused >printed
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 2 --out paused --resume | grep -E "^Going|: test" | sed 's/loss.*/loss/'
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 2 --out whole >printed
cmp paused/vae.npz whole/vae.npz && cmp paused/samples.png whole/samples.png && echo "the same to the bit"
