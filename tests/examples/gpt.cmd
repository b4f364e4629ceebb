# A whole run on a text that is learnt at once: 8 devices, micro-batches, bfloat16; then the saved model goes on from another place. Losses,
# rates and times are left out; what is written is the text again, with a wide margin.
i=0
while [ $i -lt 300 ]; do
    echo "The quick brown fox jumps over the lazy dog."
    i=$((i + 1))
done >fox.txt
small="--layers 2 --features 32 --heads 2 --length 48"
# shellcheck disable=SC2086
"$EXAMPLE" $small --text fox.txt --batch 16 --steps 150 --lr 0.01 --dropout 0.02 --bf16 --sample 88 --temperature 0 --prompt "The quick brown " |
    sed -E 's/loss [0-9]+\.[0-9]{4}/loss L/; s/[0-9]+ tokens\/s, [0-9]+:[0-9]+ left/R tokens\/s, T left/; s/: 0\.[0-9]{3} bits a byte/: less than 1 bit a byte/'
ls out
# shellcheck disable=SC2086
"$EXAMPLE" $small --generate --sample 60 --temperature 0 --prompt "over the lazy "
