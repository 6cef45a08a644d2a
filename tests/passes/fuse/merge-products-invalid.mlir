// RUN: not nano-opt %s -nano-merge-products=machine=abacus 2>&1 | FileCheck %s
// CHECK: error: nano-merge-products: {{.*}}abacus
module {
}
