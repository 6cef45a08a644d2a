// The command nano-reference: an independent trainer to compare the compiler's results with.
#include "tests/reference/Driver.h"

#include <iostream>

int main(int argc, char **argv) {
  return nano::reference::runReference({argv + 1, argv + argc}, std::cout, std::cerr);
}
