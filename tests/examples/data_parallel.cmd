# A whole run on images that are learnt at once: 8 devices, 320 images to train with, 50 to test with in batches of 32, the last one masked.
# Losses, rates and times are left out; accuracies of the second epoch are 1 with a wide margin.
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 320 50
"$EXAMPLE" --data data --batch 32 --epochs 2 --lr 0.003 --out trained | sed -E '
    s/loss [0-9]+\.[0-9]{4}/loss L/; s/(Epoch 1.*accuracy) [0-9.]{6}/\1 A/
    s/[0-9]+ images\/s, [0-9]+:[0-9]+ left/R images\/s, T left/
    s/^    1 .*/    1  (numbers)/; s/^    2 .* 1\.0000  .* 1\.0000  .*/    2  (numbers, accuracies 1.0000)/'
ls trained
"$EXAMPLE" --data data --out trained --predict 3 7 49 | sed 's/([0-9.]* %)/(P %)/'
