// Instruction-set levels by the features that the kernel reports.
#include "codegen/cpu/CpuTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace nano::codegen {

static const std::vector<std::string> v3 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"};
static const std::vector<std::string> v4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                            "avx512vl"};

static const std::vector<std::string> amx = {"amx_tile", "amx_bf16"};

/// Asks Linux for AMX's registers for this process.
static bool mayUseTiles() {
#if defined(__x86_64__)
  constexpr int requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
#else
  return false;
#endif
}

std::optional<CpuTarget> CpuTarget::fromFeatures(const std::vector<std::string> &features) {
  auto has = [&](const std::string &name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (!std::all_of(v3.begin(), v3.end(), has))
    return std::nullopt;
  CpuTarget target;
  target.avx512 = std::all_of(v4.begin(), v4.end(), has);
  target.avx512Bf16 = target.avx512 && has("avx512_bf16");
  target.amxBf16 = target.avx512Bf16 && std::all_of(amx.begin(), amx.end(), has);
  target.tuning = target.avx512 ? "x86-64-v4" : "x86-64-v3";
  return target;
}

std::optional<CpuTarget> CpuTarget::host() {
  // LLVM's names differ from the kernel's in a few places.
  static const std::vector<std::pair<std::string, std::string>> renamed = {
      {"bmi", "bmi1"},
      {"lzcnt", "abm"},
      {"avx512bf16", "avx512_bf16"},
      {"amx-tile", "amx_tile"},
      {"amx-bf16", "amx_bf16"}};
  std::vector<std::string> features;
  for (const auto &[name, isPresent] : llvm::sys::getHostCPUFeatures()) {
    if (!isPresent)
      continue;
    auto it = std::find_if(renamed.begin(), renamed.end(),
                           [&](const auto &entry) { return entry.first == name; });
    features.push_back(it == renamed.end() ? name.str() : it->second);
  }
  std::optional<CpuTarget> target = fromFeatures(features);
  if (target && target->amxBf16)
    target->amxBf16 = mayUseTiles();
  if (target)
    target->tuning = llvm::sys::getHostCPUName().str();
  return target;
}

std::vector<std::string> CpuTarget::features() const {
  std::vector<std::string> names = v3;
  if (avx512)
    names.insert(names.end(), v4.begin(), v4.end());
  if (avx512Bf16)
    names.push_back("avx512_bf16");
  if (amxBf16)
    names.insert(names.end(), amx.begin(), amx.end());
  return names;
}

} // namespace nano::codegen
