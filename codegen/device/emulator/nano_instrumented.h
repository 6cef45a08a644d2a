// What the host compiler's instrumentation (-fsanitize=thread) calls at every plain load and store
// of kernel text: a jump to the emulator. Nothing here where the text is not instrumented.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define NANO_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NANO_INSTRUMENTED 1
#endif
#endif

#ifdef NANO_INSTRUMENTED
extern "C" {
__attribute__((visibility("hidden"), used)) nano::emulator::Hooks nanoHooks;
/// Whoever loads the library says where accesses go.
__attribute__((visibility("default"), used, no_sanitize("thread"))) inline void
nanoTakeHooks(const nano::emulator::Hooks *hooks) {
  nanoHooks = *hooks;
}
}

// In assembly: as functions, some fifty of them, they took as long to compile as most kernels. A
// jump leaves the address that the text goes on at where the emulator finds it.
#define NANO_HOOK(NAME, CODE)                                                                      \
  asm(".pushsection .text\n\t.globl " #NAME "\n\t.hidden " #NAME "\n\t.type " #NAME                \
      ", @function\n" #NAME ":\n\t" CODE "\n\t.size " #NAME ", . - " #NAME "\n\t.popsection");
// The arguments behind the address are those of Hooks::access, the first function.
#define NANO_ACCESS(NAME, BYTES, USE)                                                              \
  NANO_HOOK(NAME, "movl $" #BYTES ", %esi\n\tmovl $" #USE ", %edx\n\tjmp *nanoHooks(%rip)")
#define NANO_ACCESSES(BYTES)                                                                       \
  NANO_ACCESS(__tsan_unaligned_read##BYTES, BYTES, 1)                                              \
  NANO_ACCESS(__tsan_unaligned_write##BYTES, BYTES, 2)                                             \
  NANO_ACCESS(__tsan_unaligned_read_write##BYTES, BYTES, 3)                                        \
  NANO_ACCESS(__tsan_read##BYTES, BYTES, 5)                                                        \
  NANO_ACCESS(__tsan_write##BYTES, BYTES, 6)                                                       \
  NANO_ACCESS(__tsan_read_write##BYTES, BYTES, 7)
NANO_ACCESSES(1)
NANO_ACCESSES(2)
NANO_ACCESSES(4)
NANO_ACCESSES(8)
NANO_ACCESSES(16)
NANO_HOOK(__tsan_read_range, "movl $1, %edx\n\tjmp *nanoHooks(%rip)")
NANO_HOOK(__tsan_write_range, "movl $2, %edx\n\tjmp *nanoHooks(%rip)")
NANO_HOOK(__tsan_vptr_read, "ret")
NANO_HOOK(__tsan_vptr_update, "ret")
NANO_HOOK(__tsan_init, "ret")
NANO_HOOK(__tsan_func_entry, "ret")
NANO_HOOK(__tsan_func_exit, "ret")
// Copies of large structs, and of memory that may overlap, are calls, which are not instrumented by
// themselves.
NANO_HOOK(memcpy, "jmp *nanoHooks+8(%rip)")
NANO_HOOK(__tsan_memcpy, "jmp *nanoHooks+8(%rip)")
NANO_HOOK(memmove, "jmp *nanoHooks+8(%rip)")
NANO_HOOK(__tsan_memmove, "jmp *nanoHooks+8(%rip)")
NANO_HOOK(memset, "jmp *nanoHooks+16(%rip)")
NANO_HOOK(__tsan_memset, "jmp *nanoHooks+16(%rip)")
#undef NANO_ACCESSES
#undef NANO_ACCESS
#undef NANO_HOOK
#endif
