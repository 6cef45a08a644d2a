// nano-mutants COUNT [--seed S] [--without PROOF]: mutants of small step programs, what the proofs
// say of them and what running them in all orders shows, as a table. See tools/mutants.
#include "tests/step/Mutants.h"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace {

int misuse(const std::string &what) {
  std::fprintf(stderr, "nano-mutants: %s (see tools/mutants --help)\n", what.c_str());
  return 2;
}

std::optional<int64_t> wholeNumber(const char *text) {
  const size_t length = std::strlen(text);
  if (length == 0 || length > 9 || std::strspn(text, "0123456789") != length)
    return std::nullopt;
  return std::stoll(text);
}

} // namespace

int main(int argc, char **argv) {
  using namespace nano::test;
  MutantOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seed" || word == "--without") {
      if (++i == argc)
        return misuse(word + " needs a value");
      if (word == "--without") {
        options.without = argv[i];
        bool known = false;
        for (const char *proof : proofNames())
          known |= options.without == proof;
        if (!known)
          return misuse("there is no proof '" + options.without + "'");
        continue;
      }
    }
    const std::optional<int64_t> number = wholeNumber(argv[i]);
    if (!number)
      return misuse("'" + std::string(argv[i]) + "' is not a whole number below a billion");
    if (word == "--seed")
      options.seed = static_cast<uint32_t>(*number);
    else
      options.count = *number;
  }
  if (options.count == 0)
    return misuse("say how many mutants");
  const MutantReport report = runMutants(options);
  std::printf("%s", toMarkdown(report).c_str());
  std::printf("%lld programs; %lld states of programs and mutants were reached in all orders\n",
              static_cast<long long>(report.programs), static_cast<long long>(report.states));
  for (const std::string &one : report.broken)
    std::printf("a program without a change: %s\n", one.c_str());
  for (const std::string &one : report.survivors)
    std::printf("not reported: %s\n", one.c_str());
  return report.broken.empty() && report.survivors.empty() ? 0 : 1;
}
