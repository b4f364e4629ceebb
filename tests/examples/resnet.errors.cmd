# What a user gets wrong: each is one message on stderr and exit status 1, and none trains first.
exec 2>&1
fails() {
    status=0
    (exec -a resnet "$EXAMPLE" "$@") || status=$?
    echo "exit status $status"
}
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 64 10
small="--data data --batch 32 --width 2 --blocks 1"
echo "== no such folder"
fails --data missing
echo "== fewer images than a batch"
fails --data data --limit 16 --batch 32
echo "== a batch that does not divide"
fails --batch 100 --devices 8
echo "== nothing to go on from"
# shellcheck disable=SC2086
fails $small --epochs 2 --resume
# shellcheck disable=SC2086
"$EXAMPLE" $small --epochs 2 --pause 1 >printed
echo "== a training is there"
# shellcheck disable=SC2086
fails $small --epochs 2
echo "== of another run"
# shellcheck disable=SC2086
fails $small --epochs 3 --resume
echo "== of another size"
fails --data data --batch 32 --width 4 --blocks 1 --epochs 2 --resume
echo "== options"
fails --epochs many
fails --decay 1
fails 17
fails --speed
"$EXAMPLE" --help | head -n 2
