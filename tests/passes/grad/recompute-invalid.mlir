// RUN: nano-opt %s -nano-recompute -split-input-file -verify-diagnostics

// expected-error@+1 {{no function of role "train" to recompute in}}
module {}
