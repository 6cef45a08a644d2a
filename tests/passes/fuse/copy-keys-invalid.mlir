// RUN: not nano-opt %s -nano-copy-keys=machine=abacus 2>&1 | FileCheck %s
// CHECK: error: nano-copy-keys: {{.*}}abacus
module {
}
