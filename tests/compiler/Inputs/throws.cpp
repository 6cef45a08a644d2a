#include "compiler/Frontend.h"
#include <stdexcept>
NANO_MODEL { throw std::runtime_error("out of ideas"); }
