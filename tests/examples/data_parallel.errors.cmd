# What a user gets wrong: each is one message on stderr and exit status 1, and none trains first.
exec 2>&1
fails() {
    status=0
    (exec -a data_parallel "$EXAMPLE" "$@") || status=$?
    echo "exit status $status"
}
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 32 10
images=data/train-images-idx3-ubyte.gz
labels=data/t10k-labels-idx1-ubyte.gz

echo "== no such folder"
fails --data missing
echo "== truncated" # gzip'd files may as well be plain
gzip -dc "$images" >whole && head -c 10016 whole >"$images"
fails --data data
echo "== not an IDX file"
echo "something else" >"$images"
fails --data data
echo "== labels of another data set"
cp whole "$images"
printf '\0\0\10\1\0\0\0\3\1\2\3' >"$labels"
fails --data data --batch 32
echo "== a batch that does not divide"
fails --batch 100 --devices 8
echo "== fewer images than a batch"
fails --data data --limit 16 --batch 32
echo "== not trained yet"
fails --data data --out nowhere --predict 0
echo "== options"
fails --epochs many
fails --predict
fails 17
fails --speed
"$EXAMPLE" --help | head -n 3
