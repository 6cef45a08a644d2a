// Threads that take turns on one thread of the operating system: stacks, and the change from one to
// another. x86-64, System V calling convention.
#pragma once

#include <cstddef>

namespace nano::emulator {

/// Pieces of memory of `stackPiece` bytes at multiples of it. A piece starts with `headBytes` for
/// its owner, then a page that faults when touched, then the stack.
class Stacks {
public:
  static constexpr size_t headBytes = 8192;

  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// Makes room for `count` pieces; those there were move. False when the system refuses.
  bool reserve(size_t count);
  size_t count() const { return pieces; }
  std::byte *piece(size_t index) const;

private:
  void release();

  void *mapped = nullptr;
  size_t mappedBytes = 0, pieces = 0;
  std::byte *first = nullptr;
};

/// The stack pointer of a new fiber on this piece: the first change to it calls `entry`, which
/// never returns. `index` spreads the stacks' tops over the lines of a cache.
void *startFiber(std::byte *piece, size_t index, void (*entry)());

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
/// Says to AddressSanitizer that this thread goes on on the stack of a piece, or on its own (null).
void announceStack(const std::byte *piece);
#endif

/// nanoChangeFiber to the fiber of a piece, or to the thread's own stack (null).
inline void changeFiber(void **from, void *to, [[maybe_unused]] const void *piece) {
#ifdef NANO_WITH_ASAN
  announceStack(static_cast<const std::byte *>(piece));
#endif
  nanoChangeFiber(from, to);
}

} // namespace nano::emulator
