#include "compiler/Frontend.h"
int deeper(int depth) { return deeper(depth + 1) + 1; }
NANO_MODEL { deeper(0); }
