// RUN: nano-opt %s -split-input-file -verify-diagnostics --nano-distribute=worlds=0
// RUN: not nano-opt %s --nano-distribute=worlds=2 2>&1 | FileCheck %s

// CHECK: error: no function with role "update": run nano-expand-optimizers first
// expected-error @below {{a number of ranks must be at least 1, is 0}}
module {
}
