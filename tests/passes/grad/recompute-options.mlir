// RUN: not nano-opt %s -nano-recompute=save-bytes=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not nano-opt %s -nano-recompute=spend-bytes=-1 2>&1 | FileCheck %s --check-prefix=SPEND
// RUN: not nano-opt %s "-nano-recompute=save-bytes=1 spend-bytes=1" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not nano-opt %s -nano-recompute=next=-1 2>&1 | FileCheck %s --check-prefix=NEXT
// RUN: not nano-opt %s -nano-recompute=machine=nowhere 2>&1 | FileCheck %s --check-prefix=MACHINE

// NEGATIVE: error: save-bytes must not be negative, is -1
// SPEND: error: spend-bytes must not be negative, is -1
// BOTH: error: save-bytes and spend-bytes exclude each other
// NEXT: error: next must not be negative, is -1
// MACHINE: error: {{.*}}nowhere
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %loss = nano.constant 1.0 : tensor<f32>
  nano.return %loss : tensor<f32>
}
