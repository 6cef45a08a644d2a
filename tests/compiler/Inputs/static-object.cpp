#include "compiler/Frontend.h"
static const auto width = nano::frontend::hyper("width", 4, "declared too early");
NANO_MODEL {}
