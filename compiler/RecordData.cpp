// What a model says of its data: rules for documents, and columns beside the tokens.
#include "compiler/Recorder.h"

#include "ir/graph/Data.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::frontend {

void Recorder::documents(const Documents &how, Line at) {
  if (cut)
    fail(at, "documents: called twice");
  const bool isByDocument = how.rule == Documents::Cut || how.rule == Documents::Packed;
  if (!isByDocument && how.shuffle)
    fail(at, "documents: only the rules Cut and Packed take documents apart, so that shuffle goes "
             "with them alone");
  if (!isByDocument && how.longest.id != 0)
    fail(at, "documents: only the rules Cut and Packed take documents apart, so that longest goes "
             "with them alone");
  if (how.longest.id != 0)
    declareScalar(graph::longestDocumentSymbol.str(), how.longest, i32, "documents", at);
  cut = how;
}

Tensor Recorder::column(const char *name, const ColumnType &type, Place place, Line at) {
  if (!columns || outerProgram != 0)
    fail(at, fmt::format("column: '{}' is read outside of a training or validation program", name));
  const StringRef text = name;
  const bool isName = !text.empty() && llvm::all_of(text, [](char letter) {
    return llvm::isAlnum(letter) || letter == '_' || letter == '-';
  });
  if (!isName || text == "tokens" || text == "targets")
    fail(at, fmt::format("column: '{}' cannot be a column's name: letters, digits, _ and - make "
                         "one, and it is not tokens or targets",
                         name));
  if (!type.isByte && type.type != f32 && type.type != bf16 && type.type != i32)
    fail(at,
         fmt::format("column: '{}' can be f32, bf16, i32 or u8, not {}", name, nameOf(type.type)));
  const std::string typeName = type.isByte ? "u8" : nameOf(type.type);
  if (text == graph::documentColumn && !type.isByte)
    fail(at, fmt::format("column: '{}' is u8, not {}", name, typeName));
  for (auto [i, known] : llvm::enumerate(*columns)) {
    if (known.name != name)
      continue;
    if (known.type != typeName)
      fail(at, fmt::format("column: '{}' is read as {} and as {}", name, known.type, typeName));
    if (known.place == place)
      return handle(openProgram.getArgument(unsigned(i) + 2));
  }
  columns->push_back({name, typeName, place});
  const auto shape = cast<RankedTensorType>(openProgram.getArgumentTypes().front()).getShape();
  const unsigned index = openProgram.getNumArguments();
  (void)openProgram.insertArgument(index, RankedTensorType::get(shape, elementType(type.type)), {},
                                   location(at));
  return handle(openProgram.getArgument(index));
}

void Recorder::addData(const StageRecord &stage, SmallVectorImpl<NamedAttribute> &training) {
  for (auto [name, records] : {std::pair("columns", &stage.train.columns),
                               std::pair("val_columns", &stage.validate.columns)}) {
    SmallVector<Attribute> list;
    for (const ColumnRecord &record : *records)
      list.push_back(builder.getDictionaryAttr({
          builder.getNamedAttr("name", builder.getStringAttr(record.name)),
          builder.getNamedAttr("type", builder.getStringAttr(record.type)),
          builder.getNamedAttr("of_target", builder.getBoolAttr(record.place == Place::target)),
      }));
    if (!list.empty())
      training.push_back(builder.getNamedAttr(name, builder.getArrayAttr(list)));
  }
  static constexpr const char *rules[] = {"contiguous", "aligned", "cut", "packed"};
  if (cut && cut->rule != Documents::Contiguous) {
    training.push_back(builder.getNamedAttr("documents", builder.getStringAttr(rules[cut->rule])));
    training.push_back(
        builder.getNamedAttr("shuffle_documents", builder.getBoolAttr(cut->shuffle)));
  }
}

} // namespace nano::frontend
