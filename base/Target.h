// What plans are compiled for: one table. Who does something otherwise for a target asks here for
// the property that says why; nobody compares names.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nano {

struct Target {
  std::string_view name;    ///< as --target and plans have it
  std::string_view machine; ///< the one of machines/ that its plans are for unless told
  /// The devices of nanorun that run its plans, the first unless told; empty: no more.
  std::array<std::string_view, 2> devices;
  /// The device that stands for it where kernels of a model's own are checked, and the one that is
  /// asked for those that it cannot compile; empty: there is none.
  std::string_view checkDevice, secondDevice;
  bool hasNativeCode = false;   ///< kernels become code of this machine's processor; else CUDA C++
  bool narrowsProducts = false; ///< its products of f32 factors may have results of bf16
  bool alignsProducts = false;  ///< its library wants rows of products at multiples of 16 bytes
  bool fusesProducts = false;   ///< it has a template of products with what follows them
  bool sumsBothWays = false;    ///< its kernels may reduce along rows and sum columns in one pass
  bool mergesProducts = false;  ///< its library is faster on few wide products than on many narrow
  bool sumsGradients = false;   ///< its template of attention's gradients sums their columns
  bool copiesKeys = false;      ///< that template has few blocks where few heads have keys
  bool batchesCopies = false;   ///< a launch costs time, so that copies are kernels that share one
  bool isKMajor = false;        ///< its 8-bit products take operands with the inner dimension last
  /// The most bytes that the parameters of a launch may have; 0: any.
  int64_t maxParameterBytes = 0;

  bool runsOn(std::string_view device) const;
};

/// All targets.
std::span<const Target> targets();
/// The target of that name, or null.
const Target *findTarget(std::string_view name);
/// The same; of another name one that needs nothing: nano-lower-kernels and plans refuse it.
const Target &targetOf(std::string_view name);

/// All names, in order, with that text between two: "cpu and cuda".
std::string targetNames(std::string_view between = " and ");
/// Likewise of nanorun's devices: "cpu|cuda|emulator".
std::string deviceNames(std::string_view between = "|");
/// The target whose plans that device runs, or null.
const Target *targetOfDevice(std::string_view device);

} // namespace nano
