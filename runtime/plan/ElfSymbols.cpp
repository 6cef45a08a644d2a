// Walks an ELF file's section table to its dynamic symbols; every offset is checked before it is
// followed.
#include "runtime/plan/ElfSymbols.h"

#include <cstring>
#include <elf.h>
#include <optional>

namespace nano::plan {
namespace {

/// The `index`-th T of a table at `offset`, if it lies within the bytes.
template <typename T>
std::optional<T> load(std::string_view bytes, uint64_t offset, uint64_t index = 0) {
  if (offset > bytes.size() || (bytes.size() - offset) / sizeof(T) <= index)
    return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset + index * sizeof(T), sizeof(T));
  return value;
}

} // namespace

Result<std::unordered_map<std::string_view, ElfSymbol>> definedSymbols(std::string_view elf) {
  auto damaged = [] { return badInput("the native code is not a complete ELF shared object"); };
  auto header = load<Elf64_Ehdr>(elf, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_type != ET_DYN || header->e_shentsize != sizeof(Elf64_Shdr))
    return damaged();

  std::unordered_map<std::string_view, ElfSymbol> symbols;
  for (uint64_t s = 0; s < header->e_shnum; ++s) {
    auto section = load<Elf64_Shdr>(elf, header->e_shoff, s);
    if (!section)
      return damaged();
    if (section->sh_type != SHT_DYNSYM)
      continue;
    auto strings = load<Elf64_Shdr>(elf, header->e_shoff, section->sh_link);
    if (!strings || section->sh_link >= header->e_shnum || strings->sh_offset > elf.size() ||
        strings->sh_size > elf.size() - strings->sh_offset)
      return damaged();
    std::string_view table = elf.substr(strings->sh_offset, strings->sh_size);
    for (uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Sym); ++i) {
      auto symbol = load<Elf64_Sym>(elf, section->sh_offset, i);
      if (!symbol || symbol->st_name >= table.size())
        return damaged();
      std::string_view name = table.substr(symbol->st_name);
      size_t end = name.find('\0');
      if (end == std::string_view::npos)
        return damaged();
      if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL)
        symbols[name.substr(0, end)] = {ELF64_ST_TYPE(symbol->st_info) == STT_FUNC,
                                        symbol->st_shndx == SHN_ABS, symbol->st_value};
    }
  }
  return symbols;
}

} // namespace nano::plan
