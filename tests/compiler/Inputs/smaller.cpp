// The same model with other defaults.
#include "tests/compiler/Inputs/small.cpp"

NANO_DEFAULTS({"seq_len", 4}, {"dtype", "f32"});
