// Signatures of plans: whose plans they are, by an Ed25519 key pair of the maker's. A signature
// lies in a file of its own beside the plan, whose bytes, and so whose hash, stay what they are.
// docs/plan-format.md says what stands in the files.
#pragma once

#include "base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace nano::plan {

/// The half of a key pair that everybody may know.
struct PublicKey {
  std::string bytes; ///< 32
  std::string path;  ///< the file that it is from, for messages
};

/// The half that only the maker of plans knows. Its memory is wiped when it goes. Move-only.
class SigningKey {
public:
  /// The key in a file that `makeKeyPair` wrote. BadInput, one line that begins with `path`: it
  /// cannot be read, is no private key, or other users may read or change it.
  static Result<SigningKey> read(const std::string &path);

  SigningKey(SigningKey &&other) noexcept;
  SigningKey &operator=(SigningKey &&other) = delete;
  ~SigningKey();

  /// The signature of a plan's bytes as a file holds it: one line.
  std::string sign(std::string_view planBytes) const;

private:
  explicit SigningKey(std::string secret) : secret(std::move(secret)) {}
  std::string secret; ///< 64 bytes: libsodium's form of both halves
};

/// Makes a key pair: the private half at `path`, which only the user may read, the public one at
/// `path`.pub. BadInput where one of them exists already or cannot be written; then neither is
/// made.
Status makeKeyPair(const std::string &path);

/// The key in the file. BadInput, one line that begins with `path`: it cannot be read, or is no
/// public key.
Result<PublicKey> readPublicKey(const std::string &path);

/// Where the signature of the plan at `planPath` lies: OUT.plan.sig.
std::string signaturePath(const std::string &planPath);

/// Signs the plan file at `path`. BadInput where it is no plan, or its signature cannot be written.
Status signPlanFile(const std::string &path, const SigningKey &key);

/// Whether one of the keys has signed these bytes, which were read from `planPath`. BadInput, one
/// line that begins with `planPath`: there is no signature, it is damaged, of another key, or of
/// other bytes.
Status checkSignature(const std::string &planPath, std::string_view planBytes,
                      const std::vector<PublicKey> &trusted);

} // namespace nano::plan
