// Kernels of a CPU for ops that are kernels by themselves: along sequences, of whole rows, and rows
// that are added up.
#pragma once

#include "passes/emit/KernelEmitter.h"

namespace nano::kernels {

mlir::LogicalResult emitScatterAddKernel(KernelFrame &frame);
mlir::LogicalResult emitScanKernel(KernelFrame &frame);
mlir::LogicalResult emitArgsortKernel(KernelFrame &frame);
mlir::LogicalResult emitSparsemaxKernel(KernelFrame &frame);
mlir::LogicalResult emitRecurrenceKernel(KernelFrame &frame);
mlir::LogicalResult emitBandScoresKernel(KernelFrame &frame);
mlir::LogicalResult emitBandProductKernel(KernelFrame &frame);
mlir::LogicalResult emitGroupedMatmulKernel(KernelFrame &frame);
mlir::LogicalResult emitGroupedOuterKernel(KernelFrame &frame);

/// The emitter of an op that is a kernel by itself.
struct WholeKernel {
  llvm::StringRef op;
  Emitter emitter;
};
inline constexpr WholeKernel sequenceKernels[] = {
    {"nano.scatter_add", emitScatterAddKernel},
    {"nano.scan", emitScanKernel},
    {"nano.argsort", emitArgsortKernel},
    {"nano.sparsemax", emitSparsemaxKernel},
    {"nano.recurrence", emitRecurrenceKernel},
    {"nano.band_scores", emitBandScoresKernel},
    {"nano.band_product", emitBandProductKernel},
    {"nano.grouped_matmul", emitGroupedMatmulKernel},
    {"nano.grouped_outer", emitGroupedOuterKernel},
};

} // namespace nano::kernels
