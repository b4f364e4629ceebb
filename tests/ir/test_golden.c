/* Printing and parsing on text: tests/ir/golden; golden.h says how the files look and how they are written anew. */
#include "ir/golden.h"

TEST(golden_texts) { golden_folder("ir/golden"); }
