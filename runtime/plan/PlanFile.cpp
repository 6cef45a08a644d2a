// The container of a plan file: header, section table, sections, checksums; and its way to and from
// the disk.
#include "runtime/plan/PlanFile.h"
#include "base/InputFile.h"
#include "base/OutputFile.h"
#include "runtime/plan/FieldKeys.h"
#include "runtime/plan/Messages.h"
#include "runtime/plan/PlanJson.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <sys/stat.h>

namespace nano::plan {

static constexpr uint32_t newest() {
  uint32_t version = 0;
  auto see = [&](const char *, bool, uint32_t since) { version = std::max(version, since); };
  eachKeyOf(Plan::commonFields(), see);
  eachKeyOf(Plan::variantFields(), see);
  return version;
}
const uint32_t planVersion = newest();
namespace {

constexpr char magic[8] = {'N', 'A', 'N', 'O', 'P', 'L', 'A', 'N'};

/// Sections before the variants, the last two in plans with unproven kernels only.
constexpr const char *firstSections[] = {"meta", "code", "source", "data", "checks", "ours"};
constexpr size_t provenSections = 4;
constexpr size_t firstVariant(bool isProven) {
  return isProven ? provenSections : std::size(firstSections);
}
const char *sectionName(size_t index, bool isProven) {
  return index < firstVariant(isProven) ? firstSections[index] : "variant";
}

/// The file's first bytes. `checksum`: XXH3 (64 bits) of the header before it and of the section
/// table.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t fileBytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

/// One row of the section table: a name padded with zeros, the place in the file, XXH3 (64 bits) of
/// the bytes there.
struct Section {
  char name[8];
  uint64_t offset;
  uint64_t bytes;
  uint64_t checksum;
};
static_assert(sizeof(Section) == 32);

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plan files are little-endian");

uint64_t headerChecksum(const Header &header, const std::vector<Section> &table) {
  std::string bytes(reinterpret_cast<const char *>(&header), offsetof(Header, checksum));
  bytes.append(reinterpret_cast<const char *>(table.data()), table.size() * sizeof(Section));
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// "is not what was written", for every kind of damage.
Error damaged(const std::string &name, const std::string &what) {
  return badInput(name + ": damaged plan: " + what +
                  "; copy the file again or recompile the model with nanoc");
}

} // namespace

std::string serialize(std::span<const Plan> variants) {
  const std::string meta = commonText(variants);
  std::vector<std::string> texts;
  for (const Plan &plan : variants)
    texts.push_back(variantText(plan));
  const Plan &first = variants.front();
  std::vector<std::string_view> contents = {meta, first.code, first.source, first.data};
  const bool isProven = first.unproven.empty();
  if (!isProven)
    contents.insert(contents.end(), {first.checks, first.ours});
  contents.insert(contents.end(), texts.begin(), texts.end());

  std::vector<Section> table(contents.size());
  uint64_t offset = sizeof(Header) + table.size() * sizeof(Section);
  for (size_t i = 0; i < table.size(); ++i) {
    const char *const name = sectionName(i, isProven);
    std::memcpy(table[i].name, name, std::strlen(name));
    table[i].offset = offset;
    table[i].bytes = contents[i].size();
    table[i].checksum = XXH3_64bits(contents[i].data(), contents[i].size());
    offset += contents[i].size();
  }
  Header header = {{}, planVersion, uint32_t(table.size()), offset, 0};
  std::memcpy(header.magic, magic, sizeof magic);
  header.checksum = headerChecksum(header, table);

  std::string out;
  out.reserve(offset);
  out.append(reinterpret_cast<const char *>(&header), sizeof header);
  out.append(reinterpret_cast<const char *>(table.data()), table.size() * sizeof(Section));
  for (std::string_view content : contents)
    out += content;
  return out;
}

std::string serialize(const Plan &plan) { return serialize(std::span(&plan, 1)); }

namespace {

/// The sections of a file, in order; throws an Error for anything but an undamaged file of this
/// version. `isProven`: whether those of unproven kernels are not there.
std::vector<std::string_view> sectionsOf(std::string_view bytes, const std::string &name,
                                         bool &isProven) {
  if (bytes.empty())
    throw badInput(name + ": the file is empty; pass a plan that `nanoc compile` wrote");
  if (std::memcmp(bytes.data(), magic, std::min(bytes.size(), sizeof magic)) != 0)
    throw badInput(name + ": not a plan; pass a file that `nanoc compile` wrote");
  auto truncated = [&](const std::string &total) {
    return damaged(name, "truncated, " + std::to_string(bytes.size()) + " of " + total + " bytes");
  };
  constexpr size_t leastSections = provenSections + 1;
  Header header;
  if (bytes.size() < sizeof header)
    throw truncated("at least " + std::to_string(sizeof header + leastSections * sizeof(Section)));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version > planVersion)
    throw badInput(name + ": the plan has format version " + std::to_string(header.version) +
                   ", this program reads up to " + std::to_string(planVersion) +
                   "; update nanorun, or recompile the model with this version's nanoc");
  if (header.version >= 1 && header.version < planVersion)
    throw badInput(name + ": the plan has the old format version " +
                   std::to_string(header.version) + ", this program reads " +
                   std::to_string(planVersion) + "; recompile the model with this version's nanoc");
  if (header.version < 1 || header.sections < leastSections)
    throw damaged(name, "the header is inconsistent");
  const size_t tableEnd = sizeof header + size_t(header.sections) * sizeof(Section);
  if (bytes.size() < tableEnd || bytes.size() < header.fileBytes)
    throw truncated(std::to_string(std::max<uint64_t>(tableEnd, header.fileBytes)));
  std::vector<Section> table(header.sections);
  std::memcpy(table.data(), bytes.data() + sizeof header, table.size() * sizeof(Section));
  if (header.checksum != headerChecksum(header, table))
    throw damaged(name, "checksum mismatch in the header");
  if (bytes.size() > header.fileBytes)
    throw damaged(name, std::to_string(bytes.size() - header.fileBytes) +
                            " bytes follow the end of the plan");

  std::vector<std::string_view> contents;
  uint64_t offset = tableEnd;
  isProven = std::strncmp(table[provenSections].name, firstSections[provenSections],
                          sizeof(Section::name)) != 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const Section &section = table[i];
    const char *const expected = sectionName(i, isProven);
    if (std::strncmp(section.name, expected, sizeof section.name) != 0 ||
        section.offset != offset || section.bytes > header.fileBytes - offset)
      throw damaged(name, "the section table is inconsistent");
    contents.push_back(bytes.substr(offset, section.bytes));
    offset += section.bytes;
    if (XXH3_64bits(contents[i].data(), contents[i].size()) != section.checksum)
      throw damaged(name, std::string("checksum mismatch in section '") + expected + "'");
  }
  if (offset != header.fileBytes || contents.size() <= firstVariant(isProven))
    throw damaged(name, "the section table is inconsistent");
  return contents;
}

Error invalid(const std::string &name, const std::string &what) {
  return badInput(name + ": invalid plan: " + what +
                  "; recompile the model with this version's nanoc");
}

std::string digestOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string hash;
  for (unsigned char byte : canonical.digest) {
    hash += "0123456789abcdef"[byte >> 4];
    hash += "0123456789abcdef"[byte & 15];
  }
  return hash;
}

} // namespace

Result<PlanFile> PlanFile::parse(std::string bytes, const std::string &name) {
  PlanFile file;
  file.name = name;
  file.bytes = std::move(bytes);
  try {
    bool isProven = true;
    std::vector<std::string_view> sections = sectionsOf(file.bytes, name, isProven);
    readCommon(sections[0], file.shared, file.worlds);
    const size_t variants = firstVariant(isProven);
    if (isProven != file.shared.unproven.empty())
      return invalid(name, "unproven kernels and the plans that prove them are not both there");
    if (file.worlds.size() != sections.size() - variants)
      return invalid(name, "it lists " + std::to_string(file.worlds.size()) + " variants and has " +
                               std::to_string(sections.size() - variants));
    file.shared.code = sections[1];
    file.shared.source = sections[2];
    file.shared.data = sections[3];
    if (!isProven) {
      file.shared.checks = sections[provenSections];
      file.shared.ours = sections[provenSections + 1];
    }
    for (size_t i = variants; i < sections.size(); ++i)
      file.texts.emplace_back(sections[i].data() - file.bytes.data(), sections[i].size());
  } catch (const Error &error) {
    return error;
  } catch (const FieldError &error) {
    return invalid(name, error.what());
  }
  for (const std::vector<int64_t> &variant : file.worlds) {
    if (variant.empty())
      return invalid(name, "it names no number of ranks");
    for (int64_t world : variant) {
      std::vector<int64_t> &all = file.shared.worlds;
      if (std::find(all.begin(), all.end(), world) != all.end())
        return invalid(name, "it names " + std::to_string(world) + " ranks twice");
      all.push_back(world);
    }
  }
  file.digest = digestOf(file.bytes);
  return file;
}

Result<Plan> PlanFile::variant(size_t index) const {
  Plan plan = shared;
  plan.worlds = worlds[index];
  try {
    readVariant(std::string_view(bytes).substr(texts[index].first, texts[index].second), plan);
  } catch (const FieldError &error) {
    return invalid(name, error.what());
  }
  if (Status status = validate(plan); !status)
    return invalid(name, status.error().message);
  return plan;
}

Result<Plan> PlanFile::plan(int64_t world) const {
  for (size_t i = 0; i < worlds.size(); ++i)
    if (std::find(worlds[i].begin(), worlds[i].end(), world) != worlds[i].end())
      return variant(i);
  return badInput(name + ": " + notForWorld(shared.worlds, world).message);
}

Result<std::vector<Plan>> PlanFile::plans() const {
  std::vector<Plan> all;
  for (size_t i = 0; i < worlds.size(); ++i) {
    Result<Plan> plan = variant(i);
    if (!plan)
      return plan.error();
    all.push_back(std::move(*plan));
  }
  return all;
}

Result<PlanFile> PlanFile::inner(const std::string &bytes, const char *what) const {
  Result<PlanFile> file = parse(bytes, name + ": its plan " + what);
  if (!file)
    return file;
  if (!file->common().unproven.empty() || file->common().model != shared.model ||
      file->common().target != shared.target)
    return invalid(name, std::string("its plan ") + what +
                             " is of another model or target, or has unproven kernels");
  return file;
}

Result<PlanFile> PlanFile::checks() const {
  Result<PlanFile> file = inner(shared.checks, "of checks");
  if (!file)
    return file;
  Result<Plan> plan = file->plan(1);
  return plan ? file : plan.error();
}

Result<PlanFile> PlanFile::ours() const {
  Result<PlanFile> file = inner(shared.ours, "without unproven kernels");
  if (file && file->variants() != worlds)
    return invalid(name, "its plan without unproven kernels is for other numbers of ranks");
  return file;
}

Result<Plan> parse(std::string_view bytes, const std::string &name) {
  Result<PlanFile> file = PlanFile::parse(std::string(bytes), name);
  if (!file)
    return file.error();
  return file->plan(file->variants().front().front());
}

Status writePlanFile(std::span<const Plan> variants, const std::string &path) {
  if (Status status = validate(variants); !status)
    return badInput(path +
                    ": the plan is not written because it is invalid: " + status.error().message);
  struct stat existing;
  if (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode))
    return badInput(path + ": is not a regular file; choose another name for the plan");
  Result<OutputFile> file = OutputFile::replace(path);
  if (!file)
    return badInput(file.error().message + "; choose another place for the plan");
  if (file->isStream())
    return badInput(path + ": is where messages go; choose another name for the plan");
  Status status = file->append(serialize(variants));
  if (status)
    status = file->finish();
  return status ? ok() : badInput(status.error().message);
}

Status writePlanFile(const Plan &plan, const std::string &path) {
  return writePlanFile(std::span(&plan, 1), path);
}

Result<PlanFile> PlanFile::open(const std::string &path) {
  Result<std::string> bytes = readInput(path, input::plan);
  if (!bytes)
    return bytes.error();
  return parse(std::move(*bytes), path);
}

Result<Plan> readPlanFile(const std::string &path, int64_t world) {
  Result<PlanFile> file = PlanFile::open(path);
  if (!file)
    return file.error();
  return file->plan(world);
}

std::string planHash(std::span<const Plan> variants) { return digestOf(serialize(variants)); }

std::string planHash(const Plan &plan) { return planHash(std::span(&plan, 1)); }

} // namespace nano::plan
