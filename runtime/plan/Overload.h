// One function of several lambdas, for std::visit.
#pragma once

namespace nano {

/// Calls the one of the functions that takes the arguments, as overloads are chosen.
template <typename... Functions> struct Overload : Functions... {
  using Functions::operator()...;
};

} // namespace nano
