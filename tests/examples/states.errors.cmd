# What a user gets wrong: each is one message on stderr and exit status 1, and none trains first.
exec 2>&1
fails() {
    status=0
    (exec -a states "$EXAMPLE" "$@") || status=$?
    echo "exit status $status"
}
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 32 10
echo "== no such folder"
fails --data missing
echo "== a batch that does not divide"
fails --batch 100
echo "== fewer images than a batch"
fails --data data --limit 16 --batch 32
echo "== a folder that cannot be made"
fails --data data --batch 32 --out nowhere/out
echo "== nothing of that name to freeze"
fails --data data --batch 32 --frozen lif/kernel
echo "== nothing to go on from"
fails --data data --batch 32 --out other --resume
"$EXAMPLE" --data data --batch 32 --neurons 4 --epochs 1 >printed
echo "== a training is there"
fails --data data --batch 32 --neurons 4
echo "== of another run"
fails --data data --batch 32 --neurons 4 --lr 0.1 --resume
echo "== with other parameters frozen"
fails --data data --batch 32 --neurons 4 --frozen "" --resume
fails --data data --batch 32 --neurons 4 --frozen bias --resume
echo "== options"
fails --epochs many
fails --decay 2
fails 17
fails --speed
"$EXAMPLE" --help | head -n 2
