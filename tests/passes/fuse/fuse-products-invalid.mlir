// RUN: not nano-opt %s -nano-fuse-products=products=all 2>&1 | FileCheck %s --check-prefix=PRODUCTS
// PRODUCTS: error: nano-fuse-products: products=all: there are auto, fused and library
// RUN: not nano-opt %s -nano-fuse-products=machine=abacus 2>&1 | FileCheck %s --check-prefix=MACHINE
// MACHINE: error: nano-fuse-products: {{.*}}abacus
module {
}
