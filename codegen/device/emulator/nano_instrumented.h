// What the host compiler's instrumentation (-fsanitize=thread) calls at every plain load and store
// of kernel text: they go to the running thread. Nothing here where the text is not instrumented.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define NANO_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NANO_INSTRUMENTED 1
#endif
#endif

#ifdef NANO_INSTRUMENTED
#define NANO_HOOK                                                                                  \
  extern "C" __attribute__((visibility("hidden"), used, noinline, no_sanitize("thread"))) inline
#define NANO_ACCESS(BYTES, WRITE, ALIGNED)                                                         \
  nano::emulator::thread().access(address, BYTES, WRITE, ALIGNED, __builtin_return_address(0))
#define NANO_HOOKS(BYTES)                                                                          \
  NANO_HOOK void __tsan_read##BYTES(void *address) { NANO_ACCESS(BYTES, false, true); }            \
  NANO_HOOK void __tsan_write##BYTES(void *address) { NANO_ACCESS(BYTES, true, true); }            \
  NANO_HOOK void __tsan_unaligned_read##BYTES(void *address) { NANO_ACCESS(BYTES, false, false); } \
  NANO_HOOK void __tsan_unaligned_write##BYTES(void *address) { NANO_ACCESS(BYTES, true, false); } \
  NANO_HOOK void __tsan_read_write##BYTES(void *address) {                                         \
    NANO_ACCESS(BYTES, false, true);                                                               \
    NANO_ACCESS(BYTES, true, true);                                                                \
  }                                                                                                \
  NANO_HOOK void __tsan_unaligned_read_write##BYTES(void *address) {                               \
    NANO_ACCESS(BYTES, false, false);                                                              \
    NANO_ACCESS(BYTES, true, false);                                                               \
  }
NANO_HOOKS(1)
NANO_HOOKS(2)
NANO_HOOKS(4)
NANO_HOOKS(8)
NANO_HOOKS(16)
NANO_HOOK void __tsan_read_range(void *address, unsigned long bytes) {
  NANO_ACCESS(bytes, false, false);
}
NANO_HOOK void __tsan_write_range(void *address, unsigned long bytes) {
  NANO_ACCESS(bytes, true, false);
}
NANO_HOOK void __tsan_vptr_read(void **) {}
NANO_HOOK void __tsan_vptr_update(void **, void *) {}
NANO_HOOK void __tsan_init() {}
NANO_HOOK void __tsan_func_entry(void *) {}
NANO_HOOK void __tsan_func_exit() {}

// Copies of large structs, and of memory that may overlap, are calls, which are not instrumented by
// themselves.
#define NANO_COPY(NAME)                                                                            \
  NANO_HOOK void *NAME(void *address, const void *from, unsigned long bytes) {                     \
    nano::emulator::thread().access(from, bytes, false, false, __builtin_return_address(0));       \
    NANO_ACCESS(bytes, true, false);                                                               \
    void *to = address;                                                                            \
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");                       \
    return address;                                                                                \
  }
#define NANO_MOVE(NAME)                                                                            \
  NANO_HOOK void *NAME(void *address, const void *from, unsigned long bytes) {                     \
    nano::emulator::thread().access(from, bytes, false, false, __builtin_return_address(0));       \
    NANO_ACCESS(bytes, true, false);                                                               \
    char *to = (char *)address;                                                                    \
    const char *first = (const char *)from;                                                        \
    if (to > first && to < first + bytes) {                                                        \
      to += bytes - 1, first += bytes - 1;                                                         \
      asm volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(first), "+c"(bytes)::"memory");      \
    } else {                                                                                       \
      asm volatile("rep movsb" : "+D"(to), "+S"(first), "+c"(bytes)::"memory");                    \
    }                                                                                              \
    return address;                                                                                \
  }
#define NANO_FILL(NAME)                                                                            \
  NANO_HOOK void *NAME(void *address, int value, unsigned long bytes) {                            \
    NANO_ACCESS(bytes, true, false);                                                               \
    void *to = address;                                                                            \
    asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");                     \
    return address;                                                                                \
  }
NANO_COPY(memcpy)
NANO_COPY(__tsan_memcpy)
NANO_MOVE(memmove)
NANO_MOVE(__tsan_memmove)
NANO_FILL(memset)
NANO_FILL(__tsan_memset)
#undef NANO_COPY
#undef NANO_MOVE
#undef NANO_FILL
#undef NANO_HOOKS
#undef NANO_ACCESS
#undef NANO_HOOK
#endif
