// Checkpoints' manifests.
#include "runtime/files/Manifest.h"
#include "base/JsonDepth.h"
#include "tests/fuzz/Targets.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <nlohmann/json.hpp>

namespace nano::fuzz {

namespace {

/// The manifest with the checksum of what it says; what is no JSON object stays as it is.
std::string sealed(std::string_view given) {
  if (nestsTooDeep(given))
    return std::string(given);
  nlohmann::json manifest = nlohmann::json::parse(given, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object())
    return std::string(given);
  manifest.erase("checksum");
  const auto text = [&] {
    return manifest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const std::string covered = text();
  manifest["checksum"] = hexText(XXH3_64bits(covered.data(), covered.size()));
  return text();
}

} // namespace

void manifest(std::string_view bytes) {
  (void)parseRecords(std::string(bytes));
  Contents contents;
  const Result<Manifest> read = parseManifest(sealed(bytes), contents);
  if (!read)
    return;
  const std::string written = manifestText(*read, contents);
  Contents again;
  const Result<Manifest> same = parseManifest(written, again);
  require(same && manifestText(*same, again) == written,
          "a manifest that was read gives the same text when it is written twice");
}

} // namespace nano::fuzz
