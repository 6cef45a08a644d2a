// Reads a tokenizer.json and turns the spellings of its tokens into bytes.
#include "runtime/files/Tokenizer.h"

#include "base/InputFile.h"
#include "base/JsonDepth.h"
#include "runtime/files/JsonKeys.h"

#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

namespace nano {

namespace {

using nlohmann::json;

constexpr InputKind tokenizerKind = {"a tokenizer.json", 256 * input::mebibyte, ""};
constexpr int64_t mostTokens = int64_t(1) << 24;

/// How spellings stand for bytes.
struct Spelling {
  bool isByteLevel = false; ///< every character is a byte
  bool hasFallback = false; ///< "<0x0A>" is a byte
  std::string space;        ///< stands for a blank
  std::string stripped;     ///< taken away at the beginning of a text
};

/// The next character of UTF-8 text; nothing where it is no such text.
std::optional<uint32_t> nextCharacter(const std::string &text, size_t &at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  const int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  uint32_t character = more == 0 ? lead : lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    if (at >= text.size())
      return std::nullopt;
    character = character << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
  }
  return character;
}

/// GPT-2's characters for bytes: printable ones for themselves, from U+0100 on for the others, in
/// their order.
const std::unordered_map<uint32_t, char> &byteOfCharacter() {
  static const std::unordered_map<uint32_t, char> table = [] {
    std::unordered_map<uint32_t, char> made;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool isPrintable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      made[isPrintable ? byte : next++] = char(byte);
    }
    return made;
  }();
  return table;
}

/// The byte of "<0x0A>"; nothing for another spelling.
std::optional<char> fallbackByte(const std::string &text) {
  if (text.size() != 6 || text.rfind("<0x", 0) != 0 || text[5] != '>')
    return std::nullopt;
  int byte = 0;
  for (char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0)
      return std::nullopt;
    byte = 16 * byte + digit;
  }
  return char(byte);
}

std::string bytesOf(const std::string &text, const Spelling &spelling) {
  std::string bytes;
  if (spelling.isByteLevel) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const std::optional<uint32_t> character = nextCharacter(text, at);
      const auto byte = byteOfCharacter().find(character.value_or(0));
      if (character && byte != byteOfCharacter().end())
        bytes += byte->second;
      else
        bytes += text.substr(begin, at - begin);
    }
    return bytes;
  }
  if (spelling.hasFallback)
    if (const std::optional<char> byte = fallbackByte(text))
      return {*byte};
  for (size_t at = 0; at < text.size();)
    if (!spelling.space.empty() && text.compare(at, spelling.space.size(), spelling.space) == 0) {
      bytes += ' ';
      at += spelling.space.size();
    } else {
      bytes += text[at++];
    }
  return bytes;
}

/// What the decoder of a tokenizer.json says; throws json::exception where something is missing.
/// An error is the name of what is not known.
Result<Spelling> spellingOf(const json &decoder) {
  Spelling spelling;
  const json steps = decoder.is_object() && decoder.value("type", "") == "Sequence"
                         ? decoder.at("decoders")
                         : json::array({decoder});
  for (const json &step : steps) {
    const std::string type = step.is_object() ? step.value("type", "") : "";
    if (type == "ByteLevel")
      spelling.isByteLevel = true;
    else if (type == "ByteFallback")
      spelling.hasFallback = true;
    else if (type == "Replace" && step.at("content") == " ")
      spelling.space = step.at("pattern").at("String").get<std::string>();
    else if (type == "Strip" && step.at("start") == 1 && step.at("stop") == 0)
      spelling.stripped = step.at("content").get<std::string>();
    else if (type != "Fuse")
      return badInput(step.dump(-1, ' ', true, json::error_handler_t::replace));
  }
  return spelling;
}

} // namespace

Result<Tokenizer> Tokenizer::open(const std::string &given) {
  Tokenizer tokenizer;
  std::error_code error;
  tokenizer.path = std::filesystem::is_directory(given, error) ? given + "/tokenizer.json" : given;
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: {}", tokenizer.path, what));
  };
  Result<std::string> text = readInput(tokenizer.path, tokenizerKind);
  if (!text)
    return text.error();
  if (nestsTooDeep(*text))
    return wrong(fmt::format("it {}", tooDeepText));
  if (const std::optional<std::string> twice = repeatedKey(*text))
    return wrong(fmt::format("'{}' is given twice", *twice));
  const json file = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  try {
    Result<Spelling> spelling = spellingOf(file.at("decoder"));
    if (!spelling)
      return wrong(fmt::format("its decoder {} is not known; decode the ids with transformers",
                               spelling.error().message));
    tokenizer.stripped = spelling->stripped;
    auto add = [&](const json &id, std::string bytes) {
      // Any other kind of number would be rounded, or be none of 64 bits.
      const int64_t token = id.is_number_integer() ? id.get<int64_t>() : -1;
      if (token < 0 || token >= mostTokens)
        return false;
      tokenizer.entries.insert_or_assign(token, std::move(bytes));
      return true;
    };
    for (const auto &[name, id] : file.at("model").at("vocab").items())
      if (!add(id, bytesOf(name, *spelling)))
        return wrong(fmt::format("the token '{}' has the number {}", name, id.dump()));
    if (file.contains("added_tokens"))
      for (const json &each : file.at("added_tokens"))
        if (!add(each.at("id"), each.at("content").get<std::string>()))
          return wrong(fmt::format("an added token has the number {}", each.at("id").dump()));
  } catch (const json::exception &) {
    return wrong("is not a tokenizer of HuggingFace's: it lacks model.vocab or decoder, or they "
                 "have another form");
  }
  return tokenizer;
}

Result<std::string> Tokenizer::bytes(int32_t token) const {
  const auto found = entries.find(token);
  if (found == entries.end())
    return failed(fmt::format("{}: has no token {}", path, token));
  return found->second;
}

} // namespace nano
