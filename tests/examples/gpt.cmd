# A whole run on a text that is learnt at once: 8 devices, micro-batches, bfloat16; then the saved model goes on from another place. Losses,
# rates and times are left out; what is written is the text again, with a wide margin.
i=0
while [ $i -lt 300 ]; do
    echo "The quick brown fox jumps over the lazy dog."
    i=$((i + 1))
done >fox.txt
plain() {
    sed -E 's/loss [0-9]+\.[0-9]{4}/loss L/; s/[0-9]+ tokens\/s, [0-9]+:[0-9]+ left/R tokens\/s, T left/
        s/: 0\.[0-9]{3} bits a byte/: less than 1 bit a byte/; s/^((test|train)\/[a-z]+) .*/\1 (numbers)/; s/^Metric .*/Metric (heads)/'
}
small="--layers 2 --features 32 --heads 2 --length 48"
# shellcheck disable=SC2086
"$EXAMPLE" $small --text fox.txt --batch 16 --steps 150 --lr 0.01 --dropout 0.02 --bf16 --sample 88 --temperature 0 --prompt "The quick brown " | plain
ls out | sed 's/tfevents.*/tfevents/'
# shellcheck disable=SC2086
"$EXAMPLE" $small --generate --sample 60 --temperature 0 --prompt "over the lazy "
echo "== a pause changes no bit"
small="--text fox.txt --layers 1 --features 8 --heads 1 --length 16 --batch 16 --steps 40 --sample 0"
# shellcheck disable=SC2086
"$EXAMPLE" $small --pause 13 --out paused >printed
# shellcheck disable=SC2086
"$EXAMPLE" $small --resume --out paused | grep ^Going
# shellcheck disable=SC2086
"$EXAMPLE" $small --out whole >printed
cmp paused/gpt.npz whole/gpt.npz && echo "the same to the bit"
