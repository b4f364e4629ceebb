# What a user gets wrong: each is one message on stderr and exit status 1, and none trains first.
exec 2>&1
fails() {
    status=0
    (exec -a gpt "$EXAMPLE" "$@") || status=$?
    echo "exit status $status"
}
echo "== no such text"
fails --text missing
echo "== a text too short"
echo "nothing much" >short.txt
fails --text short.txt
echo "== an empty folder"
mkdir empty
fails --text empty
echo "== a batch that does not divide"
fails --batch 100
echo "== heads that do not divide"
fails --heads 3
echo "== not trained yet"
fails --generate --out nowhere
echo "== a model of another size"
i=0
while [ $i -lt 40 ]; do
    echo "The quick brown fox jumps over the lazy dog."
    i=$((i + 1))
done >fox.txt
"$EXAMPLE" --text fox.txt --layers 1 --features 8 --heads 1 --length 8 --batch 8 --accumulate 1 --steps 1 --sample 0 >printed
fails --generate --layers 1 --features 16 --heads 1
echo "== nothing to go on from"
fails --text fox.txt --batch 8 --accumulate 1 --length 8 --out other --resume
echo "== a training is there"
small="--text fox.txt --layers 1 --heads 1 --length 8 --batch 8 --accumulate 1"
# shellcheck disable=SC2086
fails $small --features 8 --steps 1
echo "== of another run"
# shellcheck disable=SC2086
fails $small --features 8 --steps 2 --resume
echo "== of another size"
# shellcheck disable=SC2086
fails $small --features 16 --steps 1 --resume
echo "== options"
fails --steps many
fails --temperature -1
fails 17
fails --speed
"$EXAMPLE" --help | head -n 2
