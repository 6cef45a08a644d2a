// Puts the page's parts and the document into the template.
#include "compiler/explore/Page.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/raw_ostream.h"

namespace nano::explore {
namespace {

llvm::StringRef fileOf(const std::vector<EmbeddedFile> &files, llvm::StringRef name) {
  for (const EmbeddedFile &file : files)
    if (name == file.name)
      return file.text;
  return {};
}

/// The modules by the names that they import each other by: {"imports": {"main": "data:…", …}}.
std::string importMap(const std::vector<EmbeddedFile> &files) {
  std::string map = "{\"imports\": {";
  for (const EmbeddedFile &file : files) {
    llvm::StringRef name = file.name;
    if (!name.consume_back(".js"))
      continue;
    map += (map.back() == '{' ? "\"" : ",\n\"") + name.str() +
           "\": \"data:text/javascript;base64," + llvm::encodeBase64(llvm::StringRef(file.text)) +
           "\"";
  }
  return map + "}}";
}

std::string escaped(std::string_view text) {
  std::string html;
  llvm::raw_string_ostream stream(html);
  llvm::printHTMLEscaped(llvm::StringRef(text), stream);
  return html;
}

} // namespace

Result<std::string> pageOf(std::string_view title, std::string_view document) {
  if (!llvm::compression::zlib::isAvailable())
    return failed("explore: nanoc was built with an LLVM without zlib, which pages need");
  llvm::SmallVector<uint8_t, 0> compressed;
  llvm::compression::zlib::compress(llvm::arrayRefFromStringRef(document), compressed,
                                    llvm::compression::zlib::BestSizeCompression);
  const std::vector<EmbeddedFile> files = pageFiles(), libraries = libraryFiles();
  std::string page;
  llvm::StringRef rest = fileOf(files, "page.html");
  while (!rest.empty()) {
    auto [before, behind] = rest.split("{{");
    page += before;
    auto [name, after] = behind.split("}}");
    rest = after;
    if (name == "title")
      page += escaped(title);
    else if (name == "imports")
      page += importMap(files);
    else if (name == "document")
      page += llvm::encodeBase64(compressed);
    else if (llvm::StringRef text = fileOf(files, name); !text.empty())
      page += text;
    else
      page += fileOf(libraries, name);
  }
  return page;
}

} // namespace nano::explore
