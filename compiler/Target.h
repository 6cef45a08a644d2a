// What plans are compiled for, and what the pipeline and the driver do otherwise for it.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace nano {

struct Target {
  llvm::StringLiteral name; ///< as --target and plans have it
  /// The device of nanorun that stands for it where kernels of a model's own are checked, and the
  /// one that is asked for those that it cannot compile; empty: there is none.
  llvm::StringLiteral checkDevice, secondDevice;
  bool hasNativeCode = false;  ///< kernels become code of this machine's processor
  bool alignsProducts = false; ///< its library wants rows of products at multiples of 16 bytes
  bool fusesProducts = false;  ///< it has a template of products with what follows them
  bool sumsBothWays = false;   ///< its kernels may reduce along rows and sum columns in one pass
  bool mergesProducts = false; ///< its library is faster on few wide products than on many narrow
  bool batchesCopies = false;  ///< a launch costs time, so that copies are kernels that share one
  bool isKMajor = false;       ///< its 8-bit products take operands with the inner dimension last
  /// The most bytes that the parameters of a launch may have; 0: any.
  int64_t maxParameterBytes = 0;
};

/// All targets.
llvm::ArrayRef<Target> targets();
/// The target of that name, or null.
const Target *findTarget(llvm::StringRef name);
/// The same; of another name one that needs nothing: nano-lower-kernels refuses it.
const Target &targetOf(llvm::StringRef name);
/// "cpu and cuda", for messages.
std::string targetNames();

} // namespace nano
