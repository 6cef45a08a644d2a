// One pass over the text, which knows brackets and strings.
#include "base/JsonDepth.h"

namespace nano {

bool nestsTooDeep(std::string_view json) {
  int depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (isInString) {
      if (c == '\\')
        ++i; // whatever it escapes ends nothing
      else if (c == '"')
        isInString = false;
    } else if (c == '"') {
      isInString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > maxJsonDepth)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

} // namespace nano
