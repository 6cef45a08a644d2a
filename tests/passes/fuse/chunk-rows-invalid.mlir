// RUN: not nano-opt %s -nano-chunk-rows=max-bytes=-1 2>&1 | FileCheck %s

// CHECK: error: max-bytes must not be negative, is -1
module {}
