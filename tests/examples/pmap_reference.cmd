# a static function's name is not in the program's symbols: its address stands in the messages
"$EXAMPLE" | sed 's/function at 0x[0-9a-f]*/square/'
