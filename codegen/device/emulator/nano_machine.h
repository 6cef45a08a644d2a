// What kernel text that was compiled for the emulator and the emulator itself share: the thread
// that runs, and what it can ask for. The primitives' headers are built on it.
#pragma once

namespace nano::emulator {

/// A thread's or block's place, as CUDA's uint3.
struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Where kernel text calls a primitive.
struct Site {
  const char *file = nullptr;
  int line = 0;
};

enum class Shuffle { Index, Xor, Down, Up };
enum class Reduction { AddInt, AddUnsigned, MaxInt, MaxUnsigned };
enum class Vote { None, Any, All };
enum class Atomic { AddInt, AddUnsigned, MaxInt, MaxUnsigned, Or };
/// Element type of a matrix operand.
enum class Element { Bf16, E4m3, E5m2, Tf32 };

/// A product of a warpgroup; see warpgroupMultiply.
struct WarpgroupProduct {
  Element a, b;
  bool aAlongM, bAlongN;     ///< bf16 operands in shared memory that are not along K
  const unsigned *aFragment; ///< A in registers; null: `aDescriptor`
  unsigned long aDescriptor, bDescriptor;
  float *sum; ///< of this thread
  int sums;   ///< how many: the product has 2 · sums columns
  bool accumulate;
};

/// A matrix in global memory and the box of it that a load brings; a kernel's parameter, as on a
/// GPU as large.
struct alignas(64) TensorMap {
  const void *matrix;
  unsigned long columns, rows, rowBytes;
  unsigned boxColumns, boxRows, elementBytes;
  unsigned swizzleBytes; ///< 32, 64 or 128; 0: none
  unsigned char rest[80];
};
static_assert(sizeof(TensorMap) == 128);

/// The running thread. Functions with a Site are primitives of the same name; those that a group of
/// threads calls together return when all of them have called it. When a rule is broken, a function
/// does not return: the launch ends with a report.
class Thread {
public:
  Index threadIdx, blockIdx, blockDim, gridDim;
  unsigned char *dynamicShared = nullptr; ///< of its block, aligned to 1024 bytes

  /// The access of a primitive, which is aligned.
  virtual void access(const void *address, unsigned long bytes, bool write, Site site) = 0;
  /// Likewise where something is added to what is there.
  virtual void accessToAdd(const void *address, unsigned long bytes, Site site) = 0;
  /// A load of global memory that nothing writes during the launch.
  virtual void loadReadOnly(const void *address, unsigned long bytes, Site site) = 0;
  [[noreturn]] virtual void trap(Site site) = 0;
  virtual unsigned sharedAddress(const void *shared, Site site) = 0;

  virtual unsigned long shuffle(Shuffle kind, unsigned long value, int operand, unsigned mask,
                                Site site) = 0;
  virtual unsigned ballot(bool value, unsigned mask, Site site) = 0;
  virtual unsigned reduce(Reduction kind, unsigned value, Site site) = 0;
  virtual float sum(float value, Site site) = 0;
  virtual float max(float value, Site site) = 0;
  virtual bool elect(Site site) = 0;
  virtual void syncWarp(unsigned mask, Site site) = 0;
  virtual unsigned fetch(Atomic kind, void *address, unsigned value, Site site) = 0;
  virtual bool hasCount(const int *counter, int count, Site site) = 0;
  virtual void waitForCount(const int *counter, int count, Site site) = 0;
  virtual void addToCount(int *counter, Site site) = 0;

  virtual bool syncThreads(Vote vote, bool value, Site site) = 0;
  virtual void barrier(int id, int threads, bool wait, Site site) = 0;
  virtual void threadFence() = 0;

  virtual void copyAsync(void *shared, const void *global, int bytes, int valid, Site site) = 0;
  virtual void copyAsyncCommit() = 0;
  virtual void copyAsyncWait(int pending, Site site) = 0;

  virtual void loadMatrix(unsigned *fragment, int matrices, bool transposed, const void *row,
                          Site site) = 0;
  virtual void storeMatrix(void *row, const unsigned *fragment, int matrices, bool transposed,
                           Site site) = 0;
  virtual void multiply(Element aType, Element bType, float *sum, const unsigned *a,
                        const unsigned *b, Site site) = 0;

  virtual void mbarrierInit(void *barrier, unsigned count, Site site) = 0;
  virtual void mbarrierInvalidate(void *barrier, Site site) = 0;
  virtual void fenceMbarrierInit() = 0;
  /// `showsWrites`: also to threads of other blocks.
  virtual void mbarrierArrive(void *barrier, bool arrive, unsigned expected, unsigned rank,
                              bool showsWrites, Site site) = 0;
  virtual void copyAsyncArrive(void *barrier, Site site) = 0;
  virtual bool mbarrierTryWait(void *barrier, unsigned parity, Site site) = 0;
  virtual void mbarrierWait(void *barrier, unsigned parity, Site site) = 0;

  virtual void fenceProxyAsync() = 0;
  virtual void fenceProxyGlobal() = 0;
  virtual void bulkLoad(void *shared, const void *global, unsigned bytes, void *barrier,
                        unsigned blocks, Site site) = 0;
  virtual void bulkTensorLoad(void *shared, const TensorMap &map, int column, int row,
                              void *barrier, unsigned blocks, Site site) = 0;
  virtual void prefetchTensorMap(const TensorMap &map, Site site) = 0;
  virtual void bulkStore(void *global, const void *shared, unsigned bytes, Site site) = 0;
  virtual void bulkAdd(float *global, const float *shared, unsigned bytes, Site site) = 0;
  virtual void bulkCommit() = 0;
  virtual void bulkWait(int pending, bool read, Site site) = 0;

  virtual unsigned clusterRank() = 0;
  virtual unsigned clusterSize() = 0;
  virtual void clusterArrive(Site site) = 0;
  virtual void clusterWait(Site site) = 0;
  virtual void *clusterShared(const void *shared, unsigned rank, Site site) = 0;
  virtual void storeAsyncRemote(void *shared, unsigned long value, void *barrier, unsigned rank,
                                Site site) = 0;
  virtual void setRegisters(int registers, Site site) = 0;

  virtual void warpgroupFence(Site site) = 0;
  virtual void warpgroupMultiply(const WarpgroupProduct &product, Site site) = 0;
  virtual void warpgroupCommit(Site site) = 0;
  virtual void warpgroupWait(int pending, Site site) = 0;

protected:
  ~Thread() = default;
};

/// What instrumented text jumps to (nano_instrumented.h), as if it called it.
struct Hooks {
  /// A plain access. Of `use` bit 0: it reads; bit 1: it writes; bit 2: the type promises a
  /// multiple of its size.
  void (*access)(const void *address, unsigned long bytes, unsigned use);
  void *(*move)(void *to, const void *from, unsigned long bytes);
  void *(*fill)(void *to, int value, unsigned long bytes);
};

/// Every thread's stack lies in a piece of memory of this size, at a multiple of it. The thread
/// itself lies in the piece's last `headBytes`, at one of 64 places, the stack below it: threads
/// that all lay at the same place of their pieces would share few lines of a cache.
constexpr unsigned long stackPiece = 256 * 1024, headBytes = 16 * 1024, headStride = 192;

/// Where the thread lies whose piece has this address.
inline char *threadIn(char *address) {
  auto number = reinterpret_cast<unsigned long>(address);
  return address - number % stackPiece + stackPiece - headBytes +
         number / stackPiece % 64 * headStride;
}

inline Thread &thread() {
  auto *frame = static_cast<char *>(__builtin_frame_address(0));
  return *reinterpret_cast<Thread *>(threadIn(frame));
}

} // namespace nano::emulator
