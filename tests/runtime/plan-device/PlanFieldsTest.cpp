// What a reader of plans refuses: fields that are missing, unknown or of the wrong type.
#include "runtime/plan/FieldKeys.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanJson.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <span>
#include <type_traits>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano::plan {
namespace {

using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

/// The fields of a Plan, of both texts.
template <typename Fn> void eachKeyOfPlans(Fn each) {
  eachKeyOf(Plan::firstCommonFields(), each);
  eachKeyOf(Plan::commonFields(), each);
  eachKeyOf(Plan::variantFields(), each);
}

/// Gives plain members that are as by default another value where plans have them since some
/// version, so that what is added to a struct is tested without a word in TestPlans.cpp.
template <typename T> void fillNewer(T &object);
template <typename S, typename Tuple> void fillFields(S &object, const Tuple &fields);
template <typename T> void change(T &value) {
  if constexpr (std::is_same_v<T, bool>)
    value = !value;
  else if constexpr (std::is_arithmetic_v<T>)
    value = T(value + 1);
  else if constexpr (std::is_same_v<T, std::string>)
    value = "x";
  // Lists and structs get theirs in TestPlans.cpp.
}
template <typename S, typename Item> void fillField(S &, const Item &) {}
template <typename S, typename Owner, typename... T>
void fillField(S &object, const Field<Owner, T...> &field) {
  forEach(field.members, [&](auto member) {
    if (field.since > 0 && object.*member == S().*member)
      change(object.*member);
    fillNewer(object.*member);
  });
}
template <typename S, typename Owner, typename... T>
void fillField(S &object, const OneOf<Owner, T...> &oneOf) {
  std::visit([](auto &each) { fillNewer(each); }, object.*oneOf.member);
}
template <typename S, typename Tuple> void fillFields(S &object, const Tuple &fields) {
  forEach(fields, [&](const auto &field) { fillField(object, field); });
}
template <typename T> void fillNewer(T &object) {
  if constexpr (HasFields<T>)
    fillFields(object, fieldsOf<T>);
  else if constexpr (!std::is_same_v<T, std::string> && requires { object.begin(); })
    for (auto &&each : object)
      if constexpr (HasFields<std::decay_t<decltype(each)>>)
        fillNewer(each);
}
Plan filled(Plan plan) {
  fillFields(plan, Plan::commonFields());
  fillFields(plan, Plan::variantFields());
  return plan;
}
Plan fullPlan() { return filled(test::fullPlan()); }
Plan fullCudaPlan() { return filled(test::fullCudaPlan()); }

/// A text of a plan file: what variants share, or one of them.
enum class Text { Common, Variant };

/// Reads one; the error's text, or empty.
std::string read(const std::string &text, Text kind = Text::Variant) {
  Plan plan;
  std::vector<std::vector<int64_t>> worlds;
  try {
    if (kind == Text::Common)
      readCommon(text, plan, worlds);
    else
      readVariant(text, plan);
  } catch (const FieldError &error) {
    return error.what();
  }
  return "";
}

/// All places of a document, outermost first.
void places(const Json &json, const Pointer &at, std::vector<Pointer> &list) {
  list.push_back(at);
  if (json.is_object())
    for (const auto &item : json.items())
      places(item.value(), at / item.key(), list);
  if (json.is_array())
    for (size_t i = 0; i < json.size(); ++i)
      places(json[i], at / i, list);
}

Json commonDocument(const Plan &plan = fullPlan()) {
  return Json::parse(commonText(std::span(&plan, 1)));
}

/// One program is enough for what follows.
Json document(const Plan &plan = fullPlan()) {
  Json json = Json::parse(variantText(plan));
  while (json["programs"].size() > 1)
    json["programs"].erase(json["programs"].size() - 1);
  return json;
}

std::ostream &operator<<(std::ostream &os, Text text) {
  return os << (text == Text::Common ? "common" : "variant");
}

/// The pages name every key, the one that says how values lie in the file or the one that is made.
TEST(PlanFields, StandOnThePages) {
  std::string page;
  for (const char *path : {NANO_DOCS "/plan-format.md", NANO_MADE_DOCS "/plan-fields.md"}) {
    std::ifstream file(path);
    ASSERT_TRUE(file.good()) << path;
    page.append(std::istreambuf_iterator<char>(file), {});
  }
  std::set<std::string> keys;
  for (const Json &json : {commonDocument(fullCudaPlan()), document(fullCudaPlan())}) {
    std::vector<Pointer> list;
    places(json, Pointer(), list);
    for (const Pointer &place : list)
      if (!place.empty() && json.at(place.parent_pointer()).is_object() &&
          place.parent_pointer() != Pointer("/files"))
        keys.insert(place.back());
  }
  EXPECT_GT(keys.size(), 60u);
  eachKeyOfPlans([&](const std::string &key, bool, uint32_t since) {
    if (since > 0)
      EXPECT_TRUE(keys.contains(key)) << key << " has no value: give it one in TestPlans.cpp";
  });
  for (const std::string &key : keys)
    EXPECT_TRUE(std::regex_search(page, std::regex("[`{ \"]" + key + "[`}?,\"]"))) << key;
}

/// A place of a document that is changed for as long as the object lives: a copy of the whole
/// takes longer than its reading.
class Changed {
public:
  Changed(Json &json, const Pointer &place) : spot(json[place]), before(spot) {}
  ~Changed() { spot = before; }
  Changed(const Changed &) = delete;
  Changed &operator=(const Changed &) = delete;
  void to(const Json &value) const { spot = value; }

private:
  Json &spot;
  Json before;
};

/// The texts of a plan for CUDA.
class PlanFieldsOf : public testing::TestWithParam<Text> {
protected:
  std::string error(const Json &json) const { return read(json.dump(), GetParam()); }
  Json good = GetParam() == Text::Common ? commonDocument(fullCudaPlan()) : document();
};
INSTANTIATE_TEST_SUITE_P(Texts, PlanFieldsOf, testing::Values(Text::Common, Text::Variant),
                         testing::PrintToStringParamName());

TEST_P(PlanFieldsOf, EveryFieldHasAType) {
  ASSERT_EQ(error(good), "");
  std::vector<Pointer> list;
  places(good, Pointer(), list);
  ASSERT_GT(list.size(), GetParam() == Text::Common ? 40u : 400u);
  for (const Pointer &place : list) {
    const Changed changed(good, place);
    changed.to(nullptr);
    EXPECT_NE(error(good), "") << place << " = null";
    changed.to(Json::object({{"zzz", 1}}));
    EXPECT_NE(error(good), "") << place << " = object";
    for (const Json &value : {Json(-1), Json(1.5), Json("zzz"), Json(true), Json(UINT64_MAX),
                              Json::array(), Json::array({"zzz"})}) {
      changed.to(value);
      std::string message = error(good);
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

TEST_P(PlanFieldsOf, NoFieldMayBeMissing) {
  const std::set<std::string> optional = {
      "at",          "label",       "stream",       "transpose",    "stride",
      "scale",       "optimizer",   "learningRate", "sources",      "scaleBlocks",
      "sharding",    "flopsPerKey", "maximum",      "ranks",        "flops",
      "cluster",     "maps",        "checks",       "valChecks",    "genChecks",
      "interchange", "check",       "accepted",     "absent",       "hyperparameter",
      "written",     "columns",     "valColumns",   "documents",    "reports",
      "eachStep",    "phases",      "edges",        "decodeChecks", "converted",
  };
  std::set<std::string> newer;
  eachKeyOfPlans([&](const std::string &key, bool isOptional, uint32_t since) {
    if (isOptional && since > 0)
      newer.insert(key);
  });
  std::vector<Pointer> list;
  places(good, Pointer(), list);
  int removed = 0;
  for (const Pointer &place : list) {
    if (place.empty() || !good[place.parent_pointer()].is_object())
      continue;
    Json changed = good;
    changed[place.parent_pointer()].erase(place.back());
    std::string message = error(changed);
    bool isKernelAt = place.back() == "at" && place.to_string().rfind("/kernels", 0) == 0;
    bool isRanks = place.back() == "ranks" && place.to_string().rfind("/states", 0) == 0;
    // Of a step, not of a report.
    bool isOffset = place.back() == "offset" && place.to_string().rfind("/training/", 0) == 0;
    bool isPhases = place.back() == "phases" && place.to_string() == "/training/phases";
    bool isInit = place.to_string().find("/init/") != std::string::npos;
    bool isD = place.back() == "scale"; // without a factor, d is a field that nobody reads
    const bool isEvents = place.to_string() == "/training/events";
    if (isOffset || isEvents || newer.count(place.back()) ||
        (optional.count(place.back()) && !isKernelAt && !isRanks && !isPhases && !isInit && !isD))
      EXPECT_EQ(message, "") << place;
    else
      EXPECT_NE(message, "") << place;
    ++removed;
  }
  EXPECT_GT(removed, GetParam() == Text::Common ? 25 : 150);
}

/// The first value of a field that is no list or object.
Pointer leafOf(const Json &json, Pointer at) {
  while (json[at].is_structured() && !json[at].empty())
    at = json[at].is_object() ? at / json[at].begin().key() : at / 0;
  return at;
}

/// A key that nobody says the version of would be one of version 11 with other fields.
TEST(PlanFields, AreOfTheirVersions) {
  std::string first;
  uint32_t newest = 0;
  eachKeyOfPlans([&](const char *key, bool isOptional, uint32_t since) {
    if (since <= 11)
      first += std::string(key) + (isOptional ? "? " : " ");
    newest = std::max(newest, since);
  });
  EXPECT_GE(planVersion, newest);
  EXPECT_GE(planVersion, 11U);
  EXPECT_EQ(XXH3_64bits(first.data(), first.size()), 15968662985843044619U)
      << "a new field is since(" << planVersion + 1 << ", field(…)); now there are " << first;
}

/// Whoever adds a field to a struct need not think of the description.
TEST_P(PlanFieldsOf, AreDescribed) {
  const Plan fresh = GetParam() == Text::Common ? fullCudaPlan() : fullPlan();
  auto described = [&](const Json &json, std::string &text) {
    Plan plan = fresh;
    std::vector<std::vector<int64_t>> worlds;
    try {
      if (GetParam() == Text::Common)
        readCommon(json.dump(), plan, worlds);
      else
        readVariant(json.dump(), plan);
    } catch (const FieldError &) {
      return false;
    }
    text = describe(plan);
    text.erase(0, text.find('\n')); // the hash
    return true;
  };
  std::string text;
  ASSERT_TRUE(described(good, text));
  std::vector<Pointer> list;
  places(good, Pointer(), list);
  int changes = 0;
  for (const Pointer &place : list) {
    const std::string path = place.to_string();
    // Words say which kind of initial value there is and not each number; paths are a list of
    // their own; `interchange` has keys of its own.
    if (place.empty() || !good[place.parent_pointer()].is_object() ||
        path.find("/init") != std::string::npos || path.starts_with("/files") ||
        path.starts_with("/interchange") || path.starts_with("/variants"))
      continue;
    const Pointer leaf = leafOf(good, place);
    const Json value = good[leaf];
    if (value.is_structured() || (path.starts_with("/scalars") && good[place].is_array()))
      continue; // an empty list, an expression
    std::vector<Json> others = {"bf16", "f32", "group",  "peers",     "max",
                                "mean", "cut", "packed", "parameter", "gradient"};
    if (value.is_boolean())
      others = {!value.get<bool>()};
    if (value.is_number())
      others = {value.get<double>() > 0 ? Json(value.get<int64_t>() - 1) : Json(1)};
    bool isChanged = false, isRead = false;
    for (const Json &other : others) {
      if (other == value)
        continue;
      const Changed changed(good, leaf);
      changed.to(other);
      std::string now;
      if (!described(good, now))
        continue;
      isRead = true;
      isChanged |= now != text;
    }
    EXPECT_TRUE(isRead) << leaf;
    EXPECT_TRUE(isChanged) << leaf;
    ++changes;
  }
  EXPECT_GT(changes, GetParam() == Text::Common ? 25 : 150);
}

TEST_P(PlanFieldsOf, NoFieldIsUnknown) {
  std::vector<Pointer> list;
  places(good, Pointer(), list);
  for (const Pointer &place : list)
    if (good[place].is_object()) {
      Json changed = good;
      changed[place]["surprise"] = 1;
      EXPECT_NE(error(changed).find("'surprise' is unknown"), std::string::npos) << place;
    }
}

TEST(PlanErrors, NameThePlace) {
  Json json = document();
  auto with = [&](const char *place, const Json &value) {
    Json changed = json;
    changed[Pointer(place)] = value;
    return read(changed.dump());
  };
  EXPECT_EQ(with("/programs/0/commands/1/launch", "x"),
            "programs[0].commands[1].launch: expected an integer, found a string");
  EXPECT_EQ(with("/buffers/2/offset", -4), "buffers[2].offset: the number -4 is too small");
  EXPECT_EQ(with("/buffers/2/type", "f64"), "buffers[2].type: unknown element type 'f64'");
  EXPECT_EQ(with("/states/1/sharding/ranks", "some"),
            "states[1].sharding.ranks: unknown ranks 'some'");
  EXPECT_EQ(with("/scalars/0/value", Json::array({"sin", 1})),
            "scalars[0].value: unknown operation 'sin'");
  EXPECT_EQ(with("/scalars/0/value", Json::array({"add", 1})),
            "scalars[0].value: expected 3 items, found 2");
  EXPECT_EQ(with("/training/seqLen", 1.5),
            "training.seqLen: expected an integer, found a fraction");
  json.erase("group");
  EXPECT_EQ(read(json.dump()), "the field 'group' is missing");
  EXPECT_EQ(read("{\"group\":").rfind("the text is not JSON", 0), 0u);
  std::string text = commonDocument().dump();
  EXPECT_EQ(read("{\"model\":1," + text.substr(1), Text::Common),
            "model: expected a string, found an integer");
  EXPECT_EQ(read(text.substr(0, text.size() - 1) + ",\"model\":1}", Text::Common),
            "the field 'model' occurs twice");
  json = commonDocument();
  json["variants"][0][1] = "x";
  EXPECT_EQ(read(json.dump(), Text::Common), "variants[0][1]: expected an integer, found a string");
  json = document();
  json["scalars"][0]["value"] = 1;
  for (int i = 0; i < 200; ++i)
    json["scalars"][0]["value"] = Json::array({"neg", json["scalars"][0]["value"]});
  EXPECT_NE(read(json.dump()).find("nest more than 100 deep"), std::string::npos);
  for (size_t depth : {300, 120000, 4000000})
    EXPECT_EQ(read(R"({"scalars":)" + std::string(depth, '[') + std::string(depth, ']') + "}"),
              "the text is not JSON, or nests more than 256 arrays and objects in each other");
}

} // namespace
} // namespace nano::plan
