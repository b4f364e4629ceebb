# Losses to two digits, which no rounding moves; everything else is exact.
MF_NUM_CPU_DEVICES=8 "$EXAMPLE"
