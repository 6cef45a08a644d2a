// RUN: not nano-opt %s -nano-chunk-rows=max-bytes=-1 2>&1 | FileCheck %s
// RUN: not nano-opt %s -nano-chunk-rows=parts=0 2>&1 | FileCheck %s --check-prefix=PARTS

// CHECK: error: max-bytes must not be negative, is -1
// PARTS: error: parts must be positive, is 0
module {}
