// Keys and signatures as lines of text, Ed25519 by libsodium.
#include "runtime/plan/Signature.h"

#include "base/InputFile.h"
#include "base/OutputFile.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sodium.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace nano::plan {
namespace {

constexpr const char *privateName = "nano-private-key-1", *publicName = "nano-public-key-1",
                     *signatureName = "nano-plan-signature-1";
/// What is signed begins with this: a signature of a plan is one of nothing else.
constexpr std::string_view preamble = "nano plan 1\n";

constexpr size_t seedBytes = crypto_sign_SEEDBYTES, publicBytes = crypto_sign_PUBLICKEYBYTES,
                 secretBytes = crypto_sign_SECRETKEYBYTES, signatureBytes = crypto_sign_BYTES;

constexpr InputKind keyFile = {"a key", 4096, "nanoc keygen makes keys"};
constexpr InputKind signatureFile = {"a signature", 4096, "nanoc compile --sign writes one"};

void startSodium() {
  static const bool isStarted = sodium_init() >= 0;
  if (!isStarted)
    throw std::runtime_error("libsodium does not start: the system gives no random numbers");
}

unsigned char *bytesOf(std::string &text) { return reinterpret_cast<unsigned char *>(text.data()); }
const unsigned char *bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char *>(text.data());
}

std::string hexOf(std::string_view bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytesOf(bytes), bytes.size());
  text.pop_back();
  return text;
}

/// The `size` bytes that lower-case hexadecimal digits say.
std::optional<std::string> fromHex(std::string_view text, size_t size) {
  std::string bytes(size, '\0');
  size_t found = 0;
  if (text.size() != 2 * size ||
      sodium_hex2bin(bytesOf(bytes), size, text.data(), text.size(), nullptr, &found, nullptr) != 0)
    return std::nullopt;
  return hexOf(bytes) == text ? std::optional(bytes) : std::nullopt;
}

/// The words of one line; none where it is not one line of words with a space between.
std::vector<std::string_view> wordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  if (!line.ends_with('\n'))
    return words;
  line.remove_suffix(1);
  while (true) {
    const size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    if (end == line.size())
      return words;
    line.remove_prefix(end + 1);
  }
}

/// Whose signature it is, in a message.
std::string shortOf(std::string_view key) { return hexOf(key).substr(0, 16) + "…"; }

/// Of what both signing and checking go through: the preamble and the plan's bytes, hashed.
crypto_sign_state hashed(std::string_view planBytes) {
  startSodium();
  crypto_sign_state state;
  crypto_sign_init(&state);
  crypto_sign_update(&state, bytesOf(preamble), preamble.size());
  crypto_sign_update(&state, bytesOf(planBytes), planBytes.size());
  return state;
}

/// Writes a new file that nobody else may read until it has its mode, or says why not.
Status writeNew(const std::string &path, const std::string &text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0 && errno == EEXIST)
    return badInput(path + ": exists; choose another name: a key that is gone signs no more plans");
  if (file < 0)
    return badInput(path + ": cannot be created: " + std::strerror(errno));
  const bool isWritten = ::write(file, text.data(), text.size()) == ssize_t(text.size());
  const bool isKept = isWritten && ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  if (isKept)
    return ok();
  ::unlink(path.c_str());
  return badInput(path + ": cannot be written: " + std::strerror(error));
}

} // namespace

SigningKey::SigningKey(SigningKey &&other) noexcept { std::swap(secret, other.secret); }

SigningKey::~SigningKey() { sodium_memzero(secret.data(), secret.size()); }

Result<SigningKey> SigningKey::read(const std::string &path) {
  startSodium();
  Result<std::string> text = readInput(path, keyFile);
  if (!text)
    return text.error();
  const std::vector<std::string_view> words = wordsOf(*text);
  if (!words.empty() && words[0] == publicName)
    return badInput(path + ": is a public key; signing takes the private one, which nanoc keygen "
                           "wrote beside it without .pub");
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0 || (found.st_mode & 077) != 0)
    return badInput(path + ": other users may read or change it; chmod 600 " + path);
  std::optional<std::string> seed;
  if (words.size() == 2 && words[0] == privateName)
    seed = fromHex(words[1], seedBytes);
  if (!seed)
    return badInput(path + ": is no private key; nanoc keygen makes one");
  std::string secret(secretBytes, '\0'), open(publicBytes, '\0');
  crypto_sign_seed_keypair(bytesOf(open), bytesOf(secret), bytesOf(*seed));
  sodium_memzero(seed->data(), seed->size());
  sodium_memzero(text->data(), text->size());
  return SigningKey(std::move(secret));
}

std::string SigningKey::sign(std::string_view planBytes) const {
  crypto_sign_state state = hashed(planBytes);
  std::string signature(signatureBytes, '\0'), open(publicBytes, '\0');
  crypto_sign_final_create(&state, bytesOf(signature), nullptr, bytesOf(std::string_view(secret)));
  crypto_sign_ed25519_sk_to_pk(bytesOf(open), bytesOf(std::string_view(secret)));
  return std::string(signatureName) + " " + hexOf(open) + " " + hexOf(signature) + "\n";
}

Status makeKeyPair(const std::string &path) {
  startSodium();
  std::string seed(seedBytes, '\0'), secret(secretBytes, '\0'), open(publicBytes, '\0');
  randombytes_buf(seed.data(), seed.size());
  crypto_sign_seed_keypair(bytesOf(open), bytesOf(secret), bytesOf(seed));
  const std::string publicPath = path + ".pub";
  struct stat found = {};
  if (::lstat(publicPath.c_str(), &found) == 0)
    return badInput(publicPath + ": exists; choose another name");
  if (Status status =
          writeNew(path, std::string(privateName) + " " + hexOf(seed) + "\n", S_IRUSR | S_IWUSR);
      !status)
    return status;
  Status status = writeNew(publicPath, std::string(publicName) + " " + hexOf(open) + "\n", 0644);
  if (!status)
    ::unlink(path.c_str());
  return status;
}

Result<PublicKey> readPublicKey(const std::string &path) {
  startSodium();
  Result<std::string> text = readInput(path, keyFile);
  if (!text)
    return text.error();
  const std::vector<std::string_view> words = wordsOf(*text);
  if (!words.empty() && words[0] == privateName)
    return badInput(path + ": is a private key; trust is in the public one, which nanoc keygen "
                           "wrote beside it with .pub");
  std::optional<std::string> key;
  if (words.size() == 2 && words[0] == publicName)
    key = fromHex(words[1], publicBytes);
  if (!key)
    return badInput(path + ": is no public key; nanoc keygen makes one");
  return PublicKey{std::move(*key), path};
}

std::string signaturePath(const std::string &planPath) { return planPath + ".sig"; }

Status signPlanFile(const std::string &path, const SigningKey &key) {
  Result<std::string> bytes = readInput(path, input::plan);
  if (!bytes)
    return bytes.error();
  const std::string line = key.sign(*bytes);
  if (Result<PlanFile> file = PlanFile::parse(std::move(*bytes), path); !file)
    return file.error();
  Result<OutputFile> file = OutputFile::replace(signaturePath(path));
  if (!file)
    return file.error();
  if (file->isStream())
    return badInput(signaturePath(path) + ": is not a regular file; remove it");
  Status status = file->append(line);
  return status ? file->finish() : status;
}

Status checkSignature(const std::string &planPath, std::string_view planBytes,
                      const std::vector<PublicKey> &trusted) {
  startSodium();
  const std::string path = signaturePath(planPath);
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0 && errno == ENOENT)
    return badInput(planPath + ": is not signed: " + path +
                    " is not there; copy it beside the plan, sign the plan with nanoc, or leave "
                    "--trust out if you trust its maker");
  Result<std::string> text = readInput(path, signatureFile);
  if (!text)
    return badInput(planPath + ": " + text.error().message);
  const std::vector<std::string_view> words = wordsOf(*text);
  std::optional<std::string> key, signature;
  if (words.size() == 3 && words[0] == signatureName) {
    key = fromHex(words[1], publicBytes);
    signature = fromHex(words[2], signatureBytes);
  }
  if (!key || !signature)
    return badInput(planPath + ": " + path + " is no signature of a plan; copy it again");
  const bool isTrusted = std::any_of(trusted.begin(), trusted.end(),
                                     [&](const PublicKey &each) { return each.bytes == *key; });
  if (!isTrusted) {
    std::string keys;
    for (const PublicKey &each : trusted)
      keys += (keys.empty() ? "" : ", ") + each.path + " (" + shortOf(each.bytes) + ")";
    return badInput(planPath + ": is signed by another key (" + shortOf(*key) +
                    ") than those of --trust: " + keys);
  }
  crypto_sign_state state = hashed(planBytes);
  if (crypto_sign_final_verify(&state, bytesOf(std::string_view(*signature)),
                               bytesOf(std::string_view(*key))) != 0)
    return badInput(planPath + ": " + path +
                    " is the signature of other bytes: the plan was changed or compiled again "
                    "since; get both from its maker");
  return ok();
}

} // namespace nano::plan
