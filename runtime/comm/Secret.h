// The secret of a job: what its ranks know and strangers do not, and the proofs that one knows it
// without saying it (HMAC-SHA-256 over what both ends have made up for the occasion).
#pragma once

#include "base/Status.h"
#include "runtime/comm/Sockets.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// The variable that a secret is given in.
inline constexpr const char *secretVariable = "NANO_JOB_SECRET";
/// Characters that a given secret has at least.
inline constexpr size_t leastSecret = 16;

/// The secret in the file `path`, or else in `variable`, without white space around it; empty where
/// neither is given. BadInput: a file that cannot be read, is none, or can be read by other users;
/// a secret of fewer than `leastSecret` characters.
Result<std::string> givenSecret(const std::string &path,
                                const std::optional<std::string> &variable);

/// `count` bytes that nobody can guess.
std::string randomBytes(size_t count);
/// HMAC-SHA-256, 32 bytes.
std::string macOf(const std::string &key, const std::string &text);
std::string macOf(const std::string &key, const std::vector<std::string> &texts);
/// Whether two MACs are the same, in a time that does not tell where they differ.
bool isSame(const std::string &a, const std::string &b);
bool isMacOf(const std::string &mac, const std::string &key, const std::vector<std::string> &texts);

/// A place on this machine, named by `port`, where rank 0 hands its key to processes of the same
/// user: the kernel says whose a process is. Goes with the process.
Result<Socket> openKeyPlace(int port);
/// Gives `key` to who waits at the place, where the user is the same.
void handOutKey(const Socket &place, const std::string &key);
/// The key that a process of the same user hands out at the place; none where nobody does.
std::optional<std::string> askForKey(int port, Deadline deadline);

} // namespace nano
