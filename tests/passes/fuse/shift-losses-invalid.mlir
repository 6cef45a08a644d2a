// RUN: not nano-opt %s -nano-shift-losses='losses=all' 2>&1 | FileCheck %s
// RUN: not nano-opt %s -nano-shift-losses='machine=abacus' 2>&1 | FileCheck %s --check-prefix=MACHINE
// CHECK: error: nano-shift-losses: losses=all: there are auto, product and logits
// MACHINE: error: nano-shift-losses: {{.*}}abacus
module {
}
