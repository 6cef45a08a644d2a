// The page as text: one HTML file with its style, modules, libraries and document inside.
#pragma once

#include "base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace nano::explore {

/// A file that the build has put into nanoc.
struct EmbeddedFile {
  const char *name;
  const char *text;
};

/// page.html, style.css and the modules *.js, of which main.js is the first.
std::vector<EmbeddedFile> pageFiles();
/// dygraph.min.js, dygraph.min.css.
std::vector<EmbeddedFile> libraryFiles();
/// build/docs/passes.md.
std::vector<EmbeddedFile> passesPage();

/// The page that shows `document`, JSON. It loads nothing: modules are data in its import map, and
/// the document is compressed and in base64, in which no name can end an element. Failed where
/// nanoc's LLVM cannot compress.
Result<std::string> pageOf(std::string_view title, std::string_view document);

} // namespace nano::explore
