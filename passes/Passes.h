// Every pass of the compiler: constructors and registration, generated from Passes.td.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/step/Step.h"
#include "passes/PassOptions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace nano {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace nano
