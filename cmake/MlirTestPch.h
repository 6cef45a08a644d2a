// What tests of the compiler need besides; precompiled.
#pragma once

#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
