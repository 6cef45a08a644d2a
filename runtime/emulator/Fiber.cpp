// Stacks in one mapping, and a change of stack in a dozen instructions.
#include "runtime/emulator/Fiber.h"

#include "codegen/device/emulator/nano_machine.h"

#include <cstdint>
#include <sys/mman.h>

#ifdef NANO_WITH_ASAN
extern "C" void __asan_get_shadow_mapping(size_t *, size_t *);
extern "C" void __asan_set_shadow_00(uintptr_t, size_t);
extern "C" void __sanitizer_start_switch_fiber(void **, const void *, size_t);
extern "C" void __sanitizer_finish_switch_fiber(void *, const void **, size_t *);
#endif

// The callee-saved registers go onto the old stack and come from the new one.
asm(R"(
  .text
  .globl nanoChangeFiber
  .hidden nanoChangeFiber
  .type nanoChangeFiber, @function
  .p2align 4
nanoChangeFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size nanoChangeFiber, . - nanoChangeFiber
)");

namespace nano::emulator {
namespace {
constexpr size_t page = 4096;

/// Where the stack below an owner begins.
[[maybe_unused]] const std::byte *bottomOf(const std::byte *owner) {
  return owner - reinterpret_cast<uintptr_t>(owner) % stackPiece + page;
}
} // namespace

Stacks::~Stacks() { release(); }

void Stacks::release() {
  if (mapped)
    munmap(mapped, mappedBytes);
  mapped = nullptr;
  pieces = 0;
}

bool Stacks::reserve(size_t count) {
  if (count <= pieces)
    return true;
  release();
  mappedBytes = (count + 1) * stackPiece;
  void *memory = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  mapped = memory;
  uintptr_t past = reinterpret_cast<uintptr_t>(memory) % stackPiece;
  first = static_cast<std::byte *>(memory) + (past ? stackPiece - past : 0);
  pieces = count;
  for (size_t i = 0; i < count; ++i)
    if (mprotect(piece(i), page, PROT_NONE) != 0)
      return false;
  return true;
}

std::byte *Stacks::piece(size_t index) const { return first + index * stackPiece; }

std::byte *Stacks::owner(size_t index) const {
  return reinterpret_cast<std::byte *>(threadIn(reinterpret_cast<char *>(piece(index))));
}

void *startFiber(std::byte *owner, void (*entry)()) {
#ifdef NANO_WITH_ASAN
  // An entry never returns: what AddressSanitizer knows of the frames of the fiber that had this
  // stack before would be held against the new one's. (Its function that takes marks away does
  // nothing where programs may set none, as preset asan has it.)
  size_t scale = 0, offset = 0;
  __asan_get_shadow_mapping(&scale, &offset);
  const std::byte *bottom = bottomOf(owner);
  __asan_set_shadow_00((reinterpret_cast<uintptr_t>(bottom) >> scale) + offset,
                       size_t(owner - bottom) >> scale);
#endif
  auto *words = reinterpret_cast<void **>(owner);
  // As if called: the entry finds the stack 8 bytes past a multiple of 16, with no return address.
  words -= 2;
  words[0] = reinterpret_cast<void *>(entry);
  words[1] = nullptr;
  for (int i = 0; i < 6; ++i)
    *--words = nullptr;
  return words;
}

#ifdef NANO_WITH_ASAN
__attribute__((no_sanitize("address"))) void announceStack(const std::byte *owner) {
  static thread_local bool isOnFiber = false;
  static thread_local const void *own = nullptr;
  static thread_local size_t ownBytes = 0;
  const void *before = nullptr;
  void *frames = nullptr; // those that it keeps beside the stack: one set for all of a thread's
  size_t bytesBefore = 0;
  if (owner)
    __sanitizer_start_switch_fiber(&frames, bottomOf(owner), size_t(owner - bottomOf(owner)));
  else
    __sanitizer_start_switch_fiber(&frames, own, ownBytes);
  __sanitizer_finish_switch_fiber(frames, &before, &bytesBefore);
  if (!isOnFiber)
    own = before, ownBytes = bytesBefore;
  isOnFiber = owner != nullptr;
}
#endif

} // namespace nano::emulator
