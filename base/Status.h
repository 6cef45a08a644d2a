// The runtime's status type: an error is one line for the user and an exit status.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace nano {

/// Why something did not work.
struct Error {
  enum class Kind {
    BadInput, ///< bad usage or bad input: exit status 2
    Failed,   ///< the run failed: exit status 1
  };
  Kind kind = Kind::Failed;
  std::string message; ///< one line: what, where, what to do

  int exitStatus() const { return kind == Kind::BadInput ? 2 : 1; }
};

inline Error badInput(std::string message) { return {Error::Kind::BadInput, std::move(message)}; }
inline Error failed(std::string message) { return {Error::Kind::Failed, std::move(message)}; }

/// A value of type T or the Error that kept it from being made.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Error error) : content(std::move(error)) {}

  explicit operator bool() const { return std::holds_alternative<T>(content); }
  T &operator*() { return std::get<T>(content); }
  const T &operator*() const { return std::get<T>(content); }
  T *operator->() { return &std::get<T>(content); }
  const T *operator->() const { return &std::get<T>(content); }
  const Error &error() const { return std::get<Error>(content); }

private:
  std::variant<T, Error> content;
};

struct Unit {};
/// Success, or an Error.
using Status = Result<Unit>;
inline Status ok() { return Unit{}; }

} // namespace nano
