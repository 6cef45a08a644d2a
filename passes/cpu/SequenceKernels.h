// Kernels of a CPU for single ops that are no rows: along sequences, and rows that are added up.
#pragma once

#include "passes/emit/KernelEmitter.h"

namespace nano::kernels {

/// A single nano.scatter_add.
mlir::LogicalResult emitScatterAddKernel(KernelFrame &frame);
/// A single nano.scan.
mlir::LogicalResult emitScanKernel(KernelFrame &frame);
/// A single nano.argsort.
mlir::LogicalResult emitArgsortKernel(KernelFrame &frame);
/// A single nano.sparsemax.
mlir::LogicalResult emitSparsemaxKernel(KernelFrame &frame);
/// A single nano.recurrence.
mlir::LogicalResult emitRecurrenceKernel(KernelFrame &frame);
/// A single nano.band_scores / nano.band_product.
mlir::LogicalResult emitBandScoresKernel(KernelFrame &frame);
mlir::LogicalResult emitBandProductKernel(KernelFrame &frame);

} // namespace nano::kernels
