// The interpreter of the graph dialect under the names that tests know it by.
#pragma once

#include "ir/interpreter/Interpreter.h"

namespace nano::test {

using namespace interpreter;

} // namespace nano::test
