// RUN: not nano-opt %s -nano-chunk-rows=max-bytes=0 2>&1 | FileCheck %s

// CHECK: error: max-bytes must be at least 1, is 0
module {}
