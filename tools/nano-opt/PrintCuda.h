// `nano-opt --nano-print-cuda`: what the compiler's last stage writes of kernels, for tests and for
// looking.
#pragma once

namespace nano {

/// Makes the pass known, which prints every kernel's CUDA C++ on stdout and changes nothing.
void registerPrintCuda();

} // namespace nano
