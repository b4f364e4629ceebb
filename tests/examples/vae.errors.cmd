# What a user gets wrong: each is one message on stderr and exit status 1, and none trains first.
exec 2>&1
fails() {
    status=0
    (exec -a vae "$EXAMPLE" "$@") || status=$?
    echo "exit status $status"
}
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 32 10
echo "== no such folder"
fails --data missing
echo "== a batch that does not divide"
fails --batch 100
echo "== fewer images than a batch"
fails --data data --limit 16 --batch 32
echo "== fewer test images than a picture has"
fails --data data --batch 32
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" data 32 90
echo "== a folder that cannot be made"
fails --data data --batch 32 --out nowhere/out
echo "== not trained yet"
fails --data data --out nowhere --generate
echo "== a model of another size"
"$EXAMPLE" --data data --batch 32 --epochs 1 --hidden 8 --latents 2 --devices 8 >printed
fails --data data --generate --hidden 8 --latents 3
echo "== nothing to go on from"
fails --data data --batch 32 --out other --resume
echo "== a training is there"
fails --data data --batch 32 --hidden 8 --latents 2
echo "== of another run"
fails --data data --batch 32 --hidden 8 --latents 2 --lr 0.1 --resume
echo "== on other devices"
MF_PJRT_OPTIONS=cpu_device_count=4 fails --data data --batch 32 --hidden 8 --latents 2 --devices 4 --resume
echo "== options"
fails --epochs many
fails --lr -1
fails 17
fails --speed
"$EXAMPLE" --help | head -n 2
