# four digits are what releases of JAX agree on among themselves
"$EXAMPLE" --devices 1 | awk '
/^(Learned|True)/ {
    out = ""
    while (match($0, /-?[0-9]+\.[0-9]*/)) {
        out = out substr($0, 1, RSTART - 1) sprintf("%.4f", substr($0, RSTART, RLENGTH) + 0)
        $0 = substr($0, RSTART + RLENGTH)
    }
    $0 = out $0
    gsub(/ +/, " "); gsub(/\[ /, "["); gsub(/ \]/, "]")
}
{ print }'
