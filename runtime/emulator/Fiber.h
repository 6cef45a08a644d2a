// Threads that take turns on one thread of the operating system: stacks, and the change from one to
// another. x86-64, System V calling convention.
#pragma once

#include <cstddef>

namespace nano::emulator {

/// Pieces of memory of `stackPiece` bytes at multiples of it. A piece starts with a page that
/// faults when touched; then comes the stack, and above it the owner (threadIn of nano_machine.h).
class Stacks {
public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// Makes room for `count` pieces; those there were move. False when the system refuses.
  bool reserve(size_t count);
  size_t count() const { return pieces; }
  std::byte *piece(size_t index) const;
  std::byte *owner(size_t index) const;

private:
  void release();

  void *mapped = nullptr;
  size_t mappedBytes = 0, pieces = 0;
  std::byte *first = nullptr;
};

/// The stack pointer of a new fiber on the stack of this owner: the first change to it calls
/// `entry`, which never returns.
void *startFiber(std::byte *owner, void (*entry)());

/// Continues at stack pointer `to`; the call returns when something changes to `*from`, which this
/// call sets.
extern "C" void nanoChangeFiber(void **from, void *to);

#if defined(__SANITIZE_ADDRESS__)
#define NANO_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NANO_WITH_ASAN 1
#endif
#endif
#ifdef NANO_WITH_ASAN
/// Says to AddressSanitizer that this thread goes on on the stack of an owner, or on its own
/// (null).
void announceStack(const std::byte *owner);
#endif

/// nanoChangeFiber to the fiber of an owner, or to the thread's own stack (null).
inline void changeFiber(void **from, void *to, [[maybe_unused]] const void *owner) {
#ifdef NANO_WITH_ASAN
  announceStack(static_cast<const std::byte *>(owner));
#endif
  nanoChangeFiber(from, to);
}

} // namespace nano::emulator
