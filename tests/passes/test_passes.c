/* The passes on text: tests/passes/golden; ir/golden.h says how the files look and how they are written anew. */
#include "ir/golden.h"

TEST(golden_passes) { golden_folder("passes/golden"); }
