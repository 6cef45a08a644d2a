// BLAKE2b and the system's random numbers, by libsodium.
#include "base/Digest.h"

#include <cstdint>
#include <sodium.h>
#include <stdexcept>

namespace nano {

namespace {

void startSodium() {
  static const bool isStarted = sodium_init() >= 0;
  if (!isStarted)
    throw std::runtime_error("libsodium does not start: the system gives no random numbers");
}

template <size_t bytes> std::string hexOf(const unsigned char (&data)[bytes]) {
  std::string text(2 * bytes + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), data, bytes);
  text.pop_back();
  return text;
}

} // namespace

std::string digestOf(const std::vector<std::string_view> &parts) {
  startSodium();
  unsigned char digest[32];
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, sizeof digest);
  for (std::string_view part : parts) {
    const uint64_t size = part.size();
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(&size), sizeof size);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char *>(part.data()), size);
  }
  crypto_generichash_final(&state, digest, sizeof digest);
  return hexOf(digest);
}

std::string randomDigits() {
  startSodium();
  unsigned char bytes[8];
  randombytes_buf(bytes, sizeof bytes);
  return hexOf(bytes);
}

} // namespace nano
