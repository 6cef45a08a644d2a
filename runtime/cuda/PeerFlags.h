// What the GPUs of one process tell each other while they copy from each other's memory.
#pragma once

#include "runtime/cuda/Gpu.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace nano::cuda {

/// Words in memory of the host that all GPUs of the process read and write, one for each pair of
/// ranks and kind of message, 0 until it is sent. A GPU sends by writing 1; the receiver waits for
/// the 1 and writes 0 itself, so that a recorded graph can be launched again. Shared by the ranks:
/// it goes with the last of them. Its functions may be called from any thread.
class PeerFlags {
public:
  /// What a rank says to another of a collective that they are in.
  enum Kind : uint8_t {
    Ready,   ///< you may copy to me
    Arrived, ///< what I have copied to you is there
    Summed,  ///< so is the sum of my part
  };

  /// Names this process; no other has the name.
  static const std::string &processName();
  /// The flags of the ranks that call it with this name; made by the first of them, whose GPU is
  /// `gpu`. Throws Failure.
  static std::shared_ptr<PeerFlags> meet(const std::string &name, const Gpu &gpu, int world);

  PeerFlags(const Gpu &gpu, int world);
  ~PeerFlags();
  PeerFlags(const PeerFlags &) = delete;
  PeerFlags &operator=(const PeerFlags &) = delete;

  CUdeviceptr at(int receiver, int sender, Kind kind) const;

  /// A rank will not go on, and neither can the others: what they get from now on is void.
  void giveUp(const std::string &why);
  /// Why, once a rank has given up.
  std::optional<std::string> failure() const;
  /// Ends the waits that `receiver` is in now.
  void release(int receiver);

  /// This rank copies from nobody any more.
  void leave() { ++left; }
  /// Whether nobody copies from anybody.
  bool isOver() const { return left == world; }

private:
  uint32_t *word(int receiver, int sender, Kind kind) const;

  const DriverApi &api;
  const CUdevice device;
  const int world;
  CUcontext context = nullptr; ///< that of the memory
  void *memory = nullptr;
  std::atomic<int> left = 0;
  std::atomic<bool> hasFailed = false;
  mutable std::mutex mutex;
  std::string reason;
};

} // namespace nano::cuda
